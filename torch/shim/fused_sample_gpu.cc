// Sampling with the kernels of cuda/sample.cu, for devices other than the CPU. The logits stay on the device.
#include "fused.h"
#include "gpu.h"

namespace om {
namespace {

constexpr int64_t kDrawWords = OM_DRAW_WORDS;
constexpr int64_t kSampleTokens = 8192;  // kSamplePart of sample.cu; a larger number here would leave out tokens

// A matrix [R,V] of float32, contiguous.
at::Tensor as_logits(const at::Tensor &logits) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && logits.size(1) < INT32_MAX, "sample: logits must be [R,V], not ", logits.sizes());
  return logits.detach().to(at::kFloat).contiguous();
}

}  // namespace
}  // namespace om

const char *om_draw_words(const om_sample_row *rows, int64_t n, int32_t *words) {
  OM_TRY {
    for (int64_t r = 0; r < n; r++, words += om::kDrawWords) {
      const om_sample_row &row = rows[r];
      const double scale = 1 / (row.temperature > 0 ? row.temperature : 1);
      std::memcpy(words, &row.key, 8);
      std::memcpy(words + 2, &row.position, 8);
      std::memcpy(words + 4, &scale, 8);
      std::memcpy(words + 6, &row.top_p, 8);
      words[8] = static_cast<int32_t>(std::clamp<int64_t>(row.top_k, 0, INT32_MAX));
      words[9] = row.greedy != 0 || !(row.temperature > 0);
    }
  }
  OM_END
}

const char *om_draw(om_tensor logits, om_tensor draws, int64_t cut, om_tensor *out, om_tensor *cuts) {
  OM_TRY {
    at::NoGradGuard no_grad;
    const at::Tensor z = om::as_logits(om::ref(logits)), &d = om::ref(draws);
    TORCH_CHECK(om::gpu::ready(z), "sample: no kernel for logits on ", z.device());
    const int64_t n = z.size(0), parts = om::ceil_div(z.size(1), om::kSampleTokens);
    TORCH_CHECK(d.numel() == n * om::kDrawWords, "sample: ", d.numel(), " words of parameters for ", n, " rows");
    const int v = static_cast<int>(z.size(1));
    const at::Tensor result = at::empty({3, n}, z.options().dtype(at::kInt));
    at::Tensor c;
    if (cut) {
      c = at::empty({n, 4}, z.options().dtype(at::kInt));
      om::gpu::Call("sample_cut", z)(z)(d)(c)(v).run(n, 1, 1, 1024);
    }
    const at::Tensor partial = at::empty({n, parts, 4}, z.options().dtype(at::kDouble));
    om::gpu::Call("sample", z)(z)(d)(c)(partial)(om::gpu::counters(z.device(), n))(result)(v).run(n, parts, 1, 256);
    *cuts = cut ? om::wrap(c) : nullptr;
    *out = om::wrap(result);
  }
  OM_END
}

const char *om_draw_kept(om_tensor logits, om_tensor cuts, int64_t total, om_tensor *out) {
  OM_TRY {
    at::NoGradGuard no_grad;
    const at::Tensor z = om::as_logits(om::ref(logits)), result = at::empty({total}, z.options().dtype(at::kInt));
    om::gpu::Call("sample_kept", z)(z)(om::ref(cuts))(result)(static_cast<int>(z.size(1))).run(z.size(0), 1, 1, 1024);
    *out = om::wrap(result);
  }
  OM_END
}
