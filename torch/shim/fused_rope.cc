// Rotary position embedding in the rotate_half layout of transformers; its gradient is the inverse rotation.
#include "fused.h"
#include "gpu.h"

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
    at::parallel_for(0, tokens, grain(heads * half * 2), [&](int64_t b, int64_t e) {
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

at::Tensor rope(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin) {
  check_rope(q, cos, sin);
  const auto type = compute_type(q.scalar_type());
  const at::Tensor c = cos.detach().to(type).contiguous(), s = sin.detach().to(type).contiguous();
  if (has_kernel(q) || gpu::ready(q)) return wants_grad(q) ? RoPE::apply(q, c, s) : run(q, c, s, 1);
  const at::Tensor cu = c.unsqueeze(1), su = s.unsqueeze(1), qc = q.to(type);
  const auto h = qc.chunk(2, -1);
  return at::cat({h[0] * cu - h[1] * su, h[1] * cu + h[0] * su}, -1).to(q.scalar_type());
}

}  // namespace om

const char *om_rope(om_tensor q, om_tensor cos, om_tensor sin, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::rope(om::ref(q), om::ref(cos), om::ref(sin))); }
  OM_END
}
