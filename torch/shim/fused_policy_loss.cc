// The clipped policy loss and the KL estimators, per token with a closed-form gradient. Both work on a few thousand
// numbers, so they are computed in float64 on the CPU, whatever the tensors' type and device.
#include <vector>

#include "fused.h"

namespace om {
namespace {

constexpr double kLogRatioLimit = 20;
constexpr double kK3Limit = 10;

at::Tensor doubles(const at::Tensor &t) { return t.detach().to(at::kCPU, at::kDouble).contiguous(); }

// One token's loss and its derivative by the log-prob.
struct Token {
  double loss, slope;
};

// A loss whose gradient was computed together with it.
struct WithGradient : torch::autograd::Function<WithGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &logp, double loss,
                            const at::Tensor &slopes) {
    ctx->save_for_backward({slopes.to(logp.options())});
    return at::full({}, loss, logp.options());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    return {ctx->get_saved_variables()[0] * grads[0], at::Tensor(), at::Tensor()};
  }
};

void check(const char *what, const at::Tensor &logp, std::initializer_list<at::Tensor> others, double normalizer) {
  TORCH_CHECK(logp.dim() == 1, what, ": the log-probs must be [N], not ", logp.sizes());
  for (const auto &o : others)
    TORCH_CHECK(o.sizes() == logp.sizes(), what, ": all operands must be ", logp.sizes(), ", not ", o.sizes());
  TORCH_CHECK(normalizer > 0, what, ": the normalizer must be above 0, not ", normalizer);
}

// Σ token(i) m[i] / normalizer, over the positions whose mask is not 0.
template <class F>
at::Tensor masked_loss(const at::Tensor &logp, const double *m, double normalizer, const F &token) {
  at::Tensor slopes = at::zeros({logp.size(0)}, at::kDouble);
  double *s = slopes.data_ptr<double>(), sum = 0;
  for (int64_t i = 0; i < logp.size(0); i++) {
    if (m[i] == 0) continue;
    const Token t = token(i);
    sum += t.loss * m[i];
    s[i] = t.slope * m[i] / normalizer;
  }
  return WithGradient::apply(logp, sum / normalizer, slopes);
}

at::Tensor policy_loss(const at::Tensor &logp, const at::Tensor &old, const at::Tensor &adv, const at::Tensor &mask,
                       double clip_low, double clip_high, double clip_c, double normalizer, om_policy_stats *stats) {
  check("policy loss", logp, {old, adv, mask}, normalizer);
  TORCH_CHECK(clip_c == 0 || clip_c > 1, "policy loss: clip_c must be above 1, or 0 for no dual clip, not ", clip_c);
  const at::Tensor lpt = doubles(logp), oldt = doubles(old), advt = doubles(adv), maskt = doubles(mask);
  const double *lp = lpt.const_data_ptr<double>(), *op = oldt.const_data_ptr<double>(),
               *ap = advt.const_data_ptr<double>(), *m = maskt.const_data_ptr<double>();
  *stats = {};
  return masked_loss(logp, m, normalizer, [&](int64_t i) {
    const double raw = lp[i] - op[i], a = ap[i];
    const double x = std::min(std::max(raw, -kLogRatioLimit), kLogRatioLimit);
    const double ratio = std::exp(x);
    const double plain = -a * ratio;
    const double clipped = -a * std::min(std::max(ratio, 1 - clip_low), 1 + clip_high);
    const double larger = std::max(plain, clipped), bound = -a * clip_c;
    const bool cut = clip_c > 0 && a < 0 && larger > bound;
    stats->mask += m[i];
    stats->clip += clipped > plain ? m[i] : 0;
    stats->clip_lower += cut ? m[i] : 0;
    stats->kl -= x * m[i];
    stats->ratio += ratio * m[i];
    stats->ratio_max = std::max(stats->ratio_max, ratio);
    // Where the clipped side was taken the ratio lies outside the interval, and the loss is constant there.
    const bool flat = cut || clipped > plain || std::abs(raw) > kLogRatioLimit;
    if (std::isnan(raw)) return Token{raw, raw};
    return Token{cut ? bound : larger, flat ? 0 : plain};
  });
}

at::Tensor kl_loss(const at::Tensor &logp, const at::Tensor &ref, const at::Tensor &mask, double normalizer,
                   int64_t kind) {
  check("kl loss", logp, {ref, mask}, normalizer);
  TORCH_CHECK(kind >= OM_KL_K1 && kind <= OM_KL_K3, "kl loss: unknown estimator ", kind);
  const at::Tensor lpt = doubles(logp), reft = doubles(ref), maskt = doubles(mask);
  const double *lp = lpt.const_data_ptr<double>(), *rp = reft.const_data_ptr<double>(),
               *m = maskt.const_data_ptr<double>();
  return masked_loss(logp, m, normalizer, [&](int64_t i) {
    const double x = lp[i] - rp[i];
    switch (kind) {
      case OM_KL_K1:
        return Token{x, 1};
      case OM_KL_ABS:
        return Token{std::abs(x), static_cast<double>((x > 0) - (x < 0))};
      case OM_KL_K2:
        return Token{x * x / 2, x};
      default: {
        if (std::isnan(x)) return Token{x, x};
        const double c = std::min(std::max(x, -kLogRatioLimit), kLogRatioLimit);
        const double v = std::exp(-c) + c - 1;
        const bool flat = std::abs(x) > kLogRatioLimit || v > kK3Limit;
        return Token{std::min(v, kK3Limit), flat ? 0 : 1 - std::exp(-c)};
      }
    }
  });
}

}  // namespace
}  // namespace om

const char *om_policy_loss(om_tensor logp, om_tensor old_logp, om_tensor adv, om_tensor mask, double clip_low,
                           double clip_high, double clip_c, double normalizer, om_tensor *loss,
                           om_policy_stats *stats) {
  OM_TRY {
    om_policy_stats sums;
    *loss = om::wrap(om::policy_loss(om::ref(logp), om::ref(old_logp), om::ref(adv), om::ref(mask), clip_low, clip_high,
                                     clip_c, normalizer, &sums));
    if (stats != nullptr) *stats = sums;
  }
  OM_END
}

const char *om_kl_loss(om_tensor logp, om_tensor ref_logp, om_tensor mask, double normalizer, int64_t kind,
                       om_tensor *loss) {
  OM_TRY { *loss = om::wrap(om::kl_loss(om::ref(logp), om::ref(ref_logp), om::ref(mask), normalizer, kind)); }
  OM_END
}
