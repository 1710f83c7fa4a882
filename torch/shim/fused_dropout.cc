// Dropout whose draws depend on keys, on a GPU: forward and backward are one kernel (cuda/dropout.cu), and no mask is stored. Package
// torch draws the masks of other devices.
#include "fused.h"
#include "gpu.h"

namespace om {
namespace {

// The draws: the keys and the offsets of the sequences on the device, the index of the layer, and the share that is dropped.
struct Draws {
  at::Tensor keys, offsets;
  int64_t index;
  double p;
};

at::Tensor drop(const at::Tensor &x, const Draws &d) {
  const at::Tensor xc = x.contiguous();
  at::Tensor y = at::empty_like(xc);
  const int64_t n = x.numel(), width = x.size(0) == 0 ? 0 : n / x.size(0);
  gpu::Call("dropout", x)(xc)(y)(d.keys)(d.offsets)(static_cast<int>(d.keys.numel()))(width)(d.index)(static_cast<int>(d.p * (1 << 16)))(
      static_cast<float>(1 / (1 - d.p)))(n)
      .run(ceil_div(n, 256 * 128), 1, 1, 256);
  return y;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, const Draws &d) {
    ctx->save_for_backward({d.keys, d.offsets});
    ctx->saved_data["index"] = d.index;
    ctx->saved_data["p"] = d.p;
    return drop(x, d);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    return {drop(grads[0], {saved[0], saved[1], ctx->saved_data["index"].toInt(), ctx->saved_data["p"].toDouble()}), at::Tensor()};
  }
};

// All layers of a pass have the same keys and offsets, so the last ones of a thread are kept and uploaded once.
at::Tensor numbers_on(const std::vector<int64_t> &numbers, at::Device device) {
  static thread_local std::vector<int64_t> last;
  static thread_local at::Tensor kept;
  if (kept.defined() && kept.device() == device && last == numbers) return kept;
  kept = gpu::upload(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kLong, device);
  last = numbers;
  return kept;
}

}  // namespace
}  // namespace om

const char *om_dropout(om_tensor x, double p, const uint64_t *keys, const int64_t *offsets, int64_t n, uint64_t index,
                       om_tensor *out) {
  OM_TRY {
    *out = nullptr;
    const at::Tensor &t = om::ref(x);
    if (!om::gpu::ready(t)) return nullptr;
    TORCH_CHECK(n >= 1 && t.dim() >= 1 && offsets[0] == 0 && offsets[n] == t.size(0), "dropout: the offsets do not fit x ", t.sizes());
    std::vector<int64_t> numbers(n);
    std::memcpy(numbers.data(), keys, n * sizeof(int64_t));
    numbers.insert(numbers.end(), offsets, offsets + n + 1);
    const at::Tensor all = om::numbers_on(numbers, t.device());
    *out = om::wrap(om::Dropout::apply(t, om::Draws{all.narrow(0, 0, n), all.narrow(0, n, n + 1), static_cast<int64_t>(index), p}));
  }
  OM_END
}
