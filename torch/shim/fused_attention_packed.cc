// Causal attention over packed sequences, each attended alone: ATen's flash kernel per sequence, with a backward that
// writes into one gradient instead of adding up a padded one per sequence.
#include "fused.h"

namespace om {
namespace {

// One sequence of t [N,H,Dh] as [1,Hq,L,Dh], heads repeated where t has fewer than Hq.
at::Tensor sequence(const at::Tensor &t, int64_t begin, int64_t end, int64_t heads) {
  at::Tensor s = t.slice(0, begin, end);
  const int64_t own = t.size(1);
  if (own != heads)
    s = s.unsqueeze(2).expand({end - begin, own, heads / own, t.size(2)}).reshape({end - begin, heads, t.size(2)});
  return s.transpose(0, 1).unsqueeze(0);
}

// The gradient of one sequence's repeated heads [1,Hq,L,Dh], summed back and written to its place in t [N,H,Dh].
void put_gradient(const at::Tensor &grad, const at::Tensor &t, int64_t begin, int64_t end) {
  at::Tensor g = grad.squeeze(0).transpose(0, 1);
  const int64_t own = t.size(1), heads = g.size(1);
  if (own != heads) g = g.reshape({end - begin, own, heads / own, t.size(2)}).sum(2);
  t.slice(0, begin, end).copy_(g);
}

struct Packed : torch::autograd::Function<Packed> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &q, const at::Tensor &k,
                            const at::Tensor &v, const std::vector<int64_t> &offsets, double scale) {
    at::Tensor out = at::empty(q.sizes(), q.options());
    torch::autograd::variable_list saved{q, k, v, out};
    for (size_t s = 0; s + 1 < offsets.size(); s++) {
      const int64_t b = offsets[s], e = offsets[s + 1], heads = q.size(1);
      if (b == e) {
        saved.emplace_back();
        continue;
      }
      auto [o, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          sequence(q, b, e, heads), sequence(k, b, e, heads), sequence(v, b, e, heads), 0.0, true, c10::nullopt, scale);
      out.slice(0, b, e).copy_(o.squeeze(0).transpose(0, 1));
      saved.push_back(lse);
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    const auto offsets = ctx->saved_data["offsets"].toIntVector();
    const double scale = ctx->saved_data["scale"].toDouble();
    const int64_t heads = q.size(1);
    at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
    for (size_t s = 0; s + 1 < offsets.size(); s++) {
      const int64_t b = offsets[s], e = offsets[s + 1];
      if (b == e) continue;
      auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          sequence(grads[0], b, e, heads), sequence(q, b, e, heads), sequence(k, b, e, heads),
          sequence(v, b, e, heads), sequence(out, b, e, heads), saved[4 + s], 0.0, true, c10::nullopt, scale);
      put_gradient(gq, dq, b, e);
      put_gradient(gk, dk, b, e);
      put_gradient(gv, dv, b, e);
    }
    return {dq, dk, dv, at::Tensor(), at::Tensor()};
  }
};

at::Tensor attention_packed(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                            const std::vector<int64_t> &offsets, double scale) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && k.size(0) == q.size(0) &&
                  k.size(2) == q.size(2) && k.size(1) > 0 && q.size(1) % k.size(1) == 0,
              "attention: q must be [N,Hq,Dh] and k, v [N,Hkv,Dh] with Hq a multiple of Hkv, not ", q.sizes(), ", ",
              k.sizes(), ", ", v.sizes());
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "attention: q, k and v must have one type, not ", q.scalar_type(), ", ", k.scalar_type(), ", ",
              v.scalar_type());
  TORCH_CHECK(!offsets.empty() && offsets.front() == 0 && offsets.back() == q.size(0) &&
                  std::is_sorted(offsets.begin(), offsets.end()),
              "attention: offsets must rise from 0 to N = ", q.size(0), ", not ", offsets);
  if (has_kernel(q)) return Packed::apply(q, k, v, offsets, scale);
  std::vector<int64_t> lengths;
  for (size_t s = 0; s + 1 < offsets.size(); s++) lengths.push_back(offsets[s + 1] - offsets[s]);
  if (lengths.empty()) return at::zeros_like(q);
  const auto qs = q.split_with_sizes(lengths), ks = k.split_with_sizes(lengths), vs = v.split_with_sizes(lengths);
  std::vector<at::Tensor> outs;
  for (size_t s = 0; s < lengths.size(); s++) {
    const int64_t n = lengths[s], h = q.size(1);
    outs.push_back(at::scaled_dot_product_attention(sequence(qs[s], 0, n, h), sequence(ks[s], 0, n, h),
                                                    sequence(vs[s], 0, n, h), {}, 0.0, true, scale)
                       .squeeze(0)
                       .transpose(0, 1));
  }
  return at::cat(outs, 0);
}

}  // namespace
}  // namespace om

const char *om_attention_packed(om_tensor q, om_tensor k, om_tensor v, const int64_t *offsets, int64_t n_offsets,
                                double scale, om_tensor *out) {
  OM_TRY {
    *out = om::wrap(om::attention_packed(om::ref(q), om::ref(k), om::ref(v),
                                         std::vector<int64_t>(offsets, offsets + n_offsets), scale));
  }
  OM_END
}
