#include "attention.h"

namespace om {
namespace {

// The tokens [begin, end) of t [N,H,Dh] as [heads, tokens, Dh] in float32, with repeated heads if H < heads.
at::Tensor rows(const at::Tensor &t, int64_t begin, int64_t end, int64_t heads) {
  return t.slice(0, begin, end).to(at::kFloat).repeat_interleave(heads / t.size(1), 1).transpose(0, 1);
}

// Calls f(begin, end) for each sequence.
template <class F>
void each_sequence(const at::Tensor &ends, const F &f) {
  const int32_t *e = ends.const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < ends.numel(); i++) f(e[i], e[i + 1]);
}

at::Tensor scores(const at::Tensor &q, const at::Tensor &k, double scale) {
  const at::Tensor later = at::ones({q.size(1), k.size(1)}, at::kBool).triu(1);
  return at::matmul(q, k.transpose(1, 2)).mul_(scale).masked_fill_(later, -INFINITY);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> attention_forward(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                                                    const at::Tensor &ends, double scale) {
  const int64_t heads = q.size(1);
  at::Tensor out = at::zeros(q.sizes(), q.options()), lse = at::zeros({heads, q.size(0)}, q.options().dtype(at::kFloat));
  each_sequence(ends, [&](int64_t b, int64_t e) {
    const at::Tensor s = scores(rows(q, b, e, heads), rows(k, b, e, heads), scale), sums = s.logsumexp(-1);
    out.slice(0, b, e).copy_(at::matmul((s - sums.unsqueeze(-1)).exp(), rows(v, b, e, heads)).transpose(0, 1));
    lse.slice(1, b, e).copy_(sums);
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const at::Tensor &dout, const at::Tensor &q, const at::Tensor &k,
                                                                  const at::Tensor &v, const at::Tensor &out,
                                                                  const at::Tensor &lse, const at::Tensor &ends, double scale) {
  const int64_t heads = q.size(1), dim = q.size(2);
  at::Tensor dq = at::zeros(q.sizes(), q.options()), dk = at::zeros(k.sizes(), k.options()), dv = at::zeros(v.sizes(), v.options());
  each_sequence(ends, [&](int64_t b, int64_t e) {
    const at::Tensor qs = rows(q, b, e, heads), ks = rows(k, b, e, heads), vs = rows(v, b, e, heads), g = rows(dout, b, e, heads);
    const at::Tensor p = (scores(qs, ks, scale) - lse.slice(1, b, e).unsqueeze(-1)).exp();
    const at::Tensor delta = (g * rows(out, b, e, heads)).sum(-1, true);
    const at::Tensor ds = p * (at::matmul(g, vs.transpose(1, 2)) - delta) * scale;
    // The heads that share a key head are summed.
    auto write = [&](const at::Tensor &to, const at::Tensor &grad) {
      to.slice(0, b, e).copy_(grad.transpose(0, 1).reshape({e - b, to.size(1), heads / to.size(1), dim}).sum(2));
    };
    write(dq, at::matmul(ds, ks));
    write(dk, at::matmul(ds.transpose(1, 2), qs));
    write(dv, at::matmul(p.transpose(1, 2), g));
  });
  return {dq, dk, dv};
}

}  // namespace om
