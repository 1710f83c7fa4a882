// One generation step with the kernels of cuda/decode.cu, from arrays that are on the device: for devices other than the CPU. The
// caller has checked the arrays against the caches.
#include "fused.h"
#include "gpu.h"

namespace om {
namespace {

constexpr int64_t kMaxDim = OM_PAGED_MAX_DIM;
constexpr int64_t kPartTokens = 512;  // kPart of decode.cu; a smaller number here would leave out keys

void check_paged(const at::Tensor &q, const at::Tensor &kc, const at::Tensor &vc) {
  TORCH_CHECK(!wants_grad(q, kc, vc), "attention: there is no gradient through a cache; use it inside NoGrad");
  TORCH_CHECK(gpu::ready(kc) && q.dim() == 3 && kc.dim() == 4 && q.size(2) <= kMaxDim && kc.sizes() == vc.sizes() && kc.is_contiguous() && vc.is_contiguous() &&
                  kc.size(3) == q.size(2) && kc.size(2) > 0 && q.size(1) % kc.size(2) == 0,
              "attention: q must be [N,Hq,Dh] and the caches [blocks,blockSize,Hkv,Dh] with Hq a multiple of Hkv and Dh at most ",
              kMaxDim, ", not ", q.sizes(), ", ", kc.sizes(), ", ", vc.sizes());
  TORCH_CHECK(q.scalar_type() == kc.scalar_type() && q.scalar_type() == vc.scalar_type(), "attention: q and the caches must be of one type");
  same_device("attention", q, kc, vc);
}

at::Tensor rope_write_paged(at::Tensor q, at::Tensor k, const at::Tensor &v, at::Tensor q_norm, double q_eps, at::Tensor k_norm,
                            double k_eps, const at::Tensor &cos, const at::Tensor &sin, const at::Tensor &kc, const at::Tensor &vc,
                            const at::Tensor &positions, const at::Tensor &slots) {
  auto norm = [&](at::Tensor &heads, at::Tensor &w, double eps) {  // a norm that the kernel does not compute
    if (!w.defined() || (w.scalar_type() == q.scalar_type() && w.is_contiguous() && w.dim() == 1 && w.size(0) == q.size(-1))) return;
    heads = rmsnorm(heads, w, eps);
    w = at::Tensor();
  };
  same_device("rope", q, q_norm, k_norm);
  norm(k, k_norm, k_eps);
  norm(q, q_norm, q_eps);
  check_paged(q, kc, vc);
  const int64_t n = q.size(0), half = q.size(2) / 2;
  const std::vector<int64_t> want{n, kc.size(2), kc.size(3)};
  TORCH_CHECK(k.sizes() == want && v.sizes() == want && k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
              "cache write: keys ", k.sizes(), " and values ", v.sizes(), " for queries ", q.sizes(), " and a cache ", kc.sizes());
  TORCH_CHECK(cos.dim() == 2 && cos.size(1) == half && q.size(2) % 2 == 0 && cos.sizes() == sin.sizes() && cos.scalar_type() == at::kFloat &&
                  sin.scalar_type() == at::kFloat && cos.is_contiguous() && sin.is_contiguous() && positions.numel() == n && slots.numel() == n,
              "rope: q ", q.sizes(), " needs tables [positions,Dh/2] and the positions and slots of N tokens, not ", cos.sizes(), ", ",
              sin.sizes(), ", ", positions.sizes(), " and ", slots.sizes());
  const at::Tensor out = at::empty(q.sizes(), q.options());
  gpu::Call("rope_write", q)(q.contiguous())(k.contiguous())(v.contiguous())(q_norm)(k_norm)(static_cast<float>(q_eps))(
      static_cast<float>(k_eps))(cos)(sin)(out)(kc)(vc)(positions)(slots)(static_cast<int>(q.size(1)))(static_cast<int>(k.size(1)))(static_cast<int>(half)).run(n, 1, 1, gpu::threads_for(q.size(1) * half));
  return out;
}

at::Tensor attention_paged(const at::Tensor &q, const at::Tensor &kc, const at::Tensor &vc, const at::Tensor &tokens, const at::Tensor &lens,
                           const at::Tensor &starts, const at::Tensor &blocks, const at::Tensor &tiles, int64_t longest, double scale) {
  check_paged(q, kc, vc);
  TORCH_CHECK(lens.numel() == q.size(0) && starts.numel() == q.size(0), "attention: contexts of ", lens.numel(), " tokens for queries ", q.sizes());
  const int64_t heads = q.size(1), kv_heads = kc.size(2), dim = q.size(2), per_head = heads / kv_heads;
  const int hq = static_cast<int>(heads), hkv = static_cast<int>(kv_heads), dh = static_cast<int>(dim), size = static_cast<int>(kc.size(1));
  const at::Tensor queries = q.contiguous(), out = at::empty(q.sizes(), q.options());
  if (const int64_t n = tokens.numel(); n > 0) {
    const int64_t parts = std::max<int64_t>(1, ceil_div(longest, kPartTokens)), group = std::min<int64_t>(per_head, 4), chunks = ceil_div(per_head, group);
    const at::Tensor partial = at::empty({n, heads, parts, dim + 2}, q.options().dtype(at::kFloat));
    gpu::Call("attention", q)(queries)(kc)(vc)(tokens)(lens)(starts)(blocks)(out)(partial)(gpu::counters(q.device(), n * kv_heads * chunks))(
        hq)(hkv)(dh)(size)(static_cast<int>(group))(static_cast<float>(scale)).run(n, kv_heads * chunks, parts, 128);
  }
  if (const int64_t n = tiles.numel() / 2; n > 0)
    gpu::Call("attention_tile", q)(queries)(kc)(vc)(tiles)(lens)(starts)(blocks)(out)(hq)(hkv)(dh)(size)(static_cast<float>(scale)).run(
        n, heads, 1, 256);
  return out;
}

}  // namespace
}  // namespace om

const char *om_has_gpu_kernels(om_tensor t, int64_t *out) {
  OM_TRY { *out = om::gpu::ready(om::ref(t)); }
  OM_END
}

const char *om_rope_write_paged(om_tensor q, om_tensor k, om_tensor v, om_tensor q_norm, double q_eps, om_tensor k_norm, double k_eps,
                                om_tensor cos, om_tensor sin, om_tensor kc, om_tensor vc, om_tensor positions, om_tensor slots,
                                om_tensor *out) {
  OM_TRY {
    at::NoGradGuard no_grad;
    *out = om::wrap(om::rope_write_paged(om::ref(q), om::ref(k), om::ref(v), om::opt(q_norm), q_eps, om::opt(k_norm), k_eps, om::ref(cos),
                                         om::ref(sin), om::ref(kc), om::ref(vc), om::ref(positions), om::ref(slots)));
  }
  OM_END
}

const char *om_attention_paged(om_tensor q, om_tensor kc, om_tensor vc, om_tensor tokens, om_tensor lens, om_tensor starts,
                               om_tensor blocks, om_tensor tiles, int64_t longest, double scale, om_tensor *out) {
  OM_TRY {
    *out = om::wrap(om::attention_paged(om::ref(q), om::ref(kc), om::ref(vc), om::ref(tokens), om::ref(lens), om::ref(starts),
                                        om::ref(blocks), om::ref(tiles), longest, scale));
  }
  OM_END
}
