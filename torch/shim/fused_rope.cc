// Rotary position embedding in the rotate_half layout of transformers; its gradient is the inverse rotation.
#include "fused.h"
#include "gpu.h"
#include "gradient.h"

namespace om {
namespace {

// sign is 1 for the rotation and -1 for its inverse.
template <class T, int W>
OM_INLINE void rotate_tokens(const T *q, int64_t token_stride, int64_t head_stride, const typename Lanes<T, W>::A *cos,
                             const typename Lanes<T, W>::A *sin, typename Lanes<T, W>::A sign, T *out, int64_t begin, int64_t end,
                             int64_t heads, int64_t half) {
  using A = typename Lanes<T, W>::A;
  using V = typename Lanes<T, W>::V;
  for (int64_t t = begin; t < end; t++) {
    const A *c = cos + t * half, *s = sin + t * half;
    for (int64_t h = 0; h < heads; h++) {
      const T *a = q + t * token_stride + h * head_stride, *b = a + half;
      T *oa = out + (t * heads + h) * 2 * half, *ob = oa + half;
      for_lanes<T, W>(half, [&](int64_t i, auto n) OM_LAMBDA {
        const V x = load<W>(a + i, n), y = load<W>(b + i, n), ci = load<W>(c + i, n), si = load<W>(s + i, n) * sign;
        store<W>(oa + i, x * ci - y * si, n);
        store<W>(ob + i, y * ci + x * si, n);
      });
    }
  }
}

#define OM_ROPE(T, A)                                                                                               \
  OM_MULTIVERSION(rotate,                                                                                           \
                  (const T *q, int64_t ts, int64_t hs, const A *cos, const A *sin, int sign, T *out, int64_t begin, \
                   int64_t end, int64_t heads, int64_t half),                                                       \
                  (q, ts, hs, cos, sin, sign, out, begin, end, heads, half),                                        \
                  rotate_tokens<T, W>(q, ts, hs, cos, sin, sign, out, begin, end, heads, half))
OM_ROPE(float, float)
OM_ROPE(c10::BFloat16, float)
OM_ROPE(double, double)

// q may be a view of a wider row, as the q part of a fused q, k, v projection is.
at::Tensor run(at::Tensor q, const at::Tensor &cos, const at::Tensor &sin, int sign) {
  if (q.stride(2) != 1) q = q.contiguous();
  const int64_t tokens = q.size(0), heads = q.size(1), half = q.size(2) / 2;
  at::Tensor out = at::empty({tokens, heads, 2 * half}, q.options());
  if (gpu::ready(q)) {
    gpu::Call("rope", q)(q)(q.stride(0))(q.stride(1))(cos)(sin)(static_cast<float>(sign))(out)(static_cast<int>(heads))(
        static_cast<int>(half)).run(tokens, 1, 1, gpu::threads_for(heads * half));
    return out;
  }
  OM_DISPATCH(q.scalar_type(), "rope", [&] {
    using A = Lanes<scalar_t, 16>::A;
    const scalar_t *qp = q.const_data_ptr<scalar_t>();
    const A *cp = cos.const_data_ptr<A>(), *sp = sin.const_data_ptr<A>();
    scalar_t *op = out.data_ptr<scalar_t>();
    parallel_for(0, tokens, grain(heads * half * 2), [&](int64_t b, int64_t e) {
      rotate(qp, q.stride(0), q.stride(1), cp, sp, sign, op, b, e, heads, half);
    });
  });
  return out;
}

struct RoPE : torch::autograd::Function<RoPE> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &q, const at::Tensor &cos,
                            const at::Tensor &sin) {
    ctx->save_for_backward({cos, sin});
    return run(q, cos, sin, 1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    return {run(grads[0], saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void check_rope(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin) {
  TORCH_CHECK(q.dim() == 3 && q.size(2) % 2 == 0, "rope: q must be [N,H,Dh] with an even Dh, not ", q.sizes());
  const std::vector<int64_t> want{q.size(0), q.size(2) / 2};
  TORCH_CHECK(cos.sizes() == want && sin.sizes() == want, "rope: q ", q.sizes(), " needs cos and sin [N,Dh/2], not ",
              cos.sizes(), " and ", sin.sizes());
  same_device("rope", q, cos, sin);
}

RopeTokens::RopeTokens(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin)
    : q_(q.stride(2) == 1 ? q : q.contiguous()), cos_(cos), sin_(sin) {}

void RopeTokens::operator()(int64_t token, void *out) const {
  const int64_t half = q_.size(2) / 2, ts = q_.stride(0), hs = q_.stride(1);
  OM_DISPATCH(q_.scalar_type(), "rope", [&] {
    using A = Lanes<scalar_t, 16>::A;
    rotate(q_.const_data_ptr<scalar_t>() + token * ts, ts, hs, cos_.const_data_ptr<A>() + token * half,
           sin_.const_data_ptr<A>() + token * half, 1, static_cast<scalar_t *>(out), 0, 1, q_.size(1), half);
  });
}

at::Tensor rope(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin) {
  check_rope(q, cos, sin);
  const auto type = compute_type(q.scalar_type());
  const at::Tensor c = cos.detach().to(type).contiguous(), s = sin.detach().to(type).contiguous();
  if (has_kernel(q) || gpu::ready(q)) return wants_grad(q) ? RoPE::apply(q, c, s) : run(q, c, s, 1);
  const at::Tensor cu = c.unsqueeze(1), su = s.unsqueeze(1), qc = q.to(type);
  const auto h = qc.chunk(2, -1);
  return at::cat({h[0] * cu - h[1] * su, h[1] * cu + h[0] * su}, -1).to(q.scalar_type());
}

namespace {

// [N,H,Dh] whose tokens are contiguous; they may be parts of wider rows.
at::Tensor whole_tokens(const at::Tensor &t) {
  return t.stride(2) == 1 && t.stride(1) == t.size(2) ? t : t.contiguous();
}

// The norms of the query and the key heads; an undefined weight is no norm.
struct HeadNorms {
  at::Tensor q, k;
  double q_eps, k_eps;
};

// The rotation of the query and the key heads after their norms, in one kernel (cuda/layers.cu). v is passed through, so that the
// backward function has the gradients of q, k and v, and writes them side by side, as the product with the weights takes them.
struct Heads : torch::autograd::Function<Heads> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *ctx, const at::Tensor &q, const at::Tensor &k,
                                                const at::Tensor &v, const at::Tensor &cos, const at::Tensor &sin,
                                                const std::optional<at::Tensor> &q_norm, const std::optional<at::Tensor> &k_norm,
                                                double q_eps, double k_eps) {
    const HeadNorms n{q_norm.value_or(at::Tensor()), k_norm.value_or(at::Tensor()), q_eps, k_eps};
    const int64_t tokens = q.size(0), heads = q.size(1), own = k.size(1), dim = q.size(2);
    at::Tensor qo = at::empty({tokens, heads, dim}, q.options()), ko = at::empty({tokens, own, dim}, k.options());
    gpu::Call("heads", q)(q)(k)(q.stride(0))(k.stride(0))(n.q)(n.k)(static_cast<float>(q_eps))(static_cast<float>(k_eps))(cos)(sin)(
        qo)(ko)(static_cast<int>(heads))(static_cast<int>(own))(static_cast<int>(dim / 2))
        .run(tokens, 1, 1, kThreads);
    ctx->save_for_backward({q, k, cos, sin, n.q, n.k});
    ctx->saved_data["q_eps"] = q_eps;
    ctx->saved_data["k_eps"] = k_eps;
    return {qo, ko, v};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &qw = saved[4], &kw = saved[5];
    const int64_t tokens = q.size(0), heads = q.size(1), own = k.size(1), dim = q.size(2);
    if (tokens == 0) return torch::autograd::variable_list(9);
    auto given = [&](int i, int64_t h) { return grads[i].defined() ? grads[i].contiguous() : at::zeros({tokens, h, dim}, q.options()); };
    const bool norm = qw.defined() || kw.defined();
    const int64_t blocks = std::min<int64_t>(tokens, norm ? 256 : 4096);
    at::Tensor out = at::empty({tokens, (heads + 2 * own) * dim}, q.options()), partial;
    if (norm) partial = at::empty({blocks, kThreads / 32, 2 * dim}, q.options().dtype(at::kFloat));
    const Gradient gq(qw), gk(kw);
    gpu::Call("heads_backward", q)(given(0, heads))(given(1, own))(given(2, own))(q)(k)(q.stride(0))(k.stride(0))(qw)(kw)(
        static_cast<float>(ctx->saved_data["q_eps"].toDouble()))(static_cast<float>(ctx->saved_data["k_eps"].toDouble()))(saved[2])(
        saved[3])(out)(partial)(norm ? gpu::counters(q.device(), 1) : at::Tensor())(gq.target)(gk.target)(static_cast<int>(gq.add))(
        static_cast<int>(gk.add))(static_cast<int>(tokens))(static_cast<int>(heads))(static_cast<int>(own))(static_cast<int>(dim / 2))
        .run(blocks, 1, 1, kThreads);
    std::vector<at::Tensor> d = parts(out, 1, {heads * dim, own * dim, own * dim});
    {
      const Untracked guard;
      for (size_t i = 0; i < d.size(); i++) d[i] = d[i].view({tokens, i == 0 ? heads : own, dim});
    }
    return {d[0], d[1], d[2], at::Tensor(), at::Tensor(), gq.result(qw), gk.result(kw), at::Tensor(), at::Tensor()};
  }

 private:
  static constexpr int kThreads = 128;
};

std::vector<at::Tensor> rope_heads(at::Tensor q, at::Tensor k, const at::Tensor &v, const at::Tensor &cos, const at::Tensor &sin,
                                   const HeadNorms &n) {
  check_rope(q, cos, sin);
  check_rope(k, cos, sin);
  same_device("rope", q, k, v, n.q, n.k);
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && v.dim() == 3 && v.sizes() == k.sizes(), "rope: q ", q.sizes(), ", k ", k.sizes(),
              " and v ", v.sizes(), " do not fit");
  auto fits = [&](const at::Tensor &w) {
    return !w.defined() || (w.scalar_type() == q.scalar_type() && w.is_contiguous() && w.dim() == 1 && w.size(0) == q.size(2));
  };
  if (gpu::ready(q) && v.scalar_type() == q.scalar_type() && fits(n.q) && fits(n.k)) {
    auto given = [](const at::Tensor &t) { return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt; };
    const at::Tensor c = cos.detach().to(at::kFloat).contiguous(), s = sin.detach().to(at::kFloat).contiguous();
    return Heads::apply(whole_tokens(q), whole_tokens(k), v, c, s, given(n.q), given(n.k), n.q_eps, n.k_eps);
  }
  if (n.q.defined()) q = rmsnorm(q, n.q, n.q_eps);
  if (n.k.defined()) k = rmsnorm(k, n.k, n.k_eps);
  return {rope(q, cos, sin), rope(k, cos, sin), v};
}

}  // namespace
}  // namespace om

const char *om_rope_heads(om_tensor q, om_tensor k, om_tensor v, om_tensor cos, om_tensor sin, om_tensor q_norm, double q_eps,
                          om_tensor k_norm, double k_eps, om_tensor *out) {
  OM_TRY {
    const auto r = om::rope_heads(om::ref(q), om::ref(k), om::ref(v), om::ref(cos), om::ref(sin),
                                  {om::opt(q_norm), om::opt(k_norm), q_eps, k_eps});
    for (size_t i = 0; i < r.size(); i++) out[i] = om::wrap(r[i]);
  }
  OM_END
}
