// RMSNorm with the casts of transformers: computed in float32, rounded to x's type, then multiplied by w.
#include "fused.h"
#include "gpu.h"
#include "gradient.h"

namespace om {
namespace {

template <class T, int W>
OM_INLINE void forward_rows(const T *x, const T *w, T *y, typename Lanes<T, W>::A *inv, int64_t begin, int64_t end,
                            int64_t d, double eps) {
  using A = typename Lanes<T, W>::A;
  for (int64_t r = begin; r < end; r++) {
    const T *xr = x + r * d;
    T *yr = y + r * d;
    const A s = A(1) / std::sqrt(sum_lanes<W>(dot_lanes<W>(xr, xr, d)) / A(d) + A(eps));
    inv[r] = s;
    for_lanes<T, W>(d, [&](int64_t i, auto c) OM_LAMBDA {
      store<W>(yr + i, round_lanes<T, W>(load<W>(xr + i, c) * s) * load<W>(w + i, c), c);
    });
  }
}

// With n = x·s, g = dy·w and D = len(x): dx = s (g - n mean(g n)), dw += dy n.
template <class T, int W>
OM_INLINE void backward_rows(const T *x, const T *w, const T *dy, const typename Lanes<T, W>::A *inv, T *dx,
                             typename Lanes<T, W>::A *dw, int64_t begin, int64_t end, int64_t d) {
  using A = typename Lanes<T, W>::A;
  using V = typename Lanes<T, W>::V;
  for (int64_t r = begin; r < end; r++) {
    const T *xr = x + r * d, *gr = dy + r * d;
    T *dr = dx + r * d;
    const A s = inv[r];
    V dot = {};
    for_lanes<T, W>(d, [&](int64_t i, auto c) OM_LAMBDA {
      dot += load<W>(gr + i, c) * load<W>(w + i, c) * load<W>(xr + i, c);
    });
    const A mean = sum_lanes<W>(dot) * s * s / A(d);
    for_lanes<T, W>(d, [&](int64_t i, auto c) OM_LAMBDA {
      const V xi = load<W>(xr + i, c), gi = load<W>(gr + i, c);
      store<W>(dr + i, (gi * load<W>(w + i, c) - xi * mean) * s, c);
      store<W>(dw + i, load<W>(dw + i, c) + gi * round_lanes<T, W>(xi * s), c);
    });
  }
}

#define OM_RMSNORM(T, A)                                                                                          \
  OM_MULTIVERSION(forward, (const T *x, const T *w, T *y, A *inv, int64_t begin, int64_t end, int64_t d, double eps), \
                  (x, w, y, inv, begin, end, d, eps), forward_rows<T, W>(x, w, y, inv, begin, end, d, eps))        \
  OM_MULTIVERSION(backward,                                                                                       \
                  (const T *x, const T *w, const T *dy, const A *inv, T *dx, A *dw, int64_t begin, int64_t end,   \
                   int64_t d),                                                                                    \
                  (x, w, dy, inv, dx, dw, begin, end, d), backward_rows<T, W>(x, w, dy, inv, dx, dw, begin, end, d))
OM_RMSNORM(float, float)
OM_RMSNORM(c10::BFloat16, float)
OM_RMSNORM(double, double)

// Returns the result and the factor of every row.
std::pair<at::Tensor, at::Tensor> run_forward(const at::Tensor &x, const at::Tensor &w, double eps) {
  const int64_t d = x.size(-1), rows = d == 0 ? 0 : x.numel() / d;
  at::Tensor y = at::empty_like(x), inv = at::empty({rows}, x.options().dtype(compute_type(x.scalar_type())));
  if (gpu::ready(x)) {
    gpu::Call("rmsnorm", x)(x)(w)(y)(inv)(static_cast<int>(d))(static_cast<float>(eps)).run(rows, 1, 1, gpu::threads_for(d));
    return {y, inv};
  }
  OM_DISPATCH(x.scalar_type(), "rmsnorm", [&] {
    using A = Lanes<scalar_t, 16>::A;
    const scalar_t *xp = x.const_data_ptr<scalar_t>(), *wp = w.const_data_ptr<scalar_t>();
    scalar_t *yp = y.data_ptr<scalar_t>();
    A *ip = inv.data_ptr<A>();
    parallel_for(0, rows, grain(d), [&](int64_t b, int64_t e) { forward(xp, wp, yp, ip, b, e, d, eps); });
  });
  return {y, inv};
}

// The gradients of x and w with the kernel of cuda/layers.cu, which adds other, if defined, to that of x.
torch::autograd::variable_list backward_gpu(const at::Tensor &x, const at::Tensor &w, const at::Tensor &dy, const at::Tensor &inv,
                                            const at::Tensor &other) {
  const int64_t d = x.size(-1), rows = d == 0 ? 0 : x.numel() / d, blocks = std::min<int64_t>(rows, 256);
  if (blocks == 0) return {at::zeros_like(x), at::zeros_like(w), at::Tensor()};
  at::Tensor dx = at::empty_like(x);
  const Gradient gw(w);
  const at::Tensor partial = at::empty({blocks, d}, inv.options());
  gpu::Call("rmsnorm_backward", x)(x)(w)(dy)(inv)(other)(dx)(partial)(gpu::counters(x.device(), 1))(gw.target)(
      static_cast<int>(gw.add))(rows)(static_cast<int>(d)).run(blocks, 1, 1, gpu::threads_for(d));
  return {dx, gw.result(w), at::Tensor()};
}

struct RMSNorm : torch::autograd::Function<RMSNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, const at::Tensor &w,
                            double eps) {
    auto [y, inv] = run_forward(x, w, eps);
    ctx->save_for_backward({x, w, inv});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1], &inv = saved[2];
    const at::Tensor dy = grads[0].contiguous();
    const int64_t d = x.size(-1), rows = d == 0 ? 0 : x.numel() / d;
    // dw is summed per slab of rows, and the slabs depend on the number of rows only.
    const int64_t pieces = std::min<int64_t>(32, std::max<int64_t>(1, rows / 16));
    at::Tensor dx = at::empty_like(x);
    if (gpu::ready(x)) return backward_gpu(x, w, dy, inv, at::Tensor());
    at::Tensor dw = at::zeros({pieces, d}, inv.options());
    OM_DISPATCH(x.scalar_type(), "rmsnorm backward", [&] {
      using A = Lanes<scalar_t, 16>::A;
      const scalar_t *xp = x.const_data_ptr<scalar_t>(), *wp = w.const_data_ptr<scalar_t>(),
                     *gp = dy.const_data_ptr<scalar_t>();
      const A *ip = inv.const_data_ptr<A>();
      scalar_t *dxp = dx.data_ptr<scalar_t>();
      A *dwp = dw.data_ptr<A>();
      parallel_for(0, pieces, 1, [&](int64_t b, int64_t e) {
        for (int64_t p = b; p < e; p++)
          om::backward(xp, wp, gp, ip, dxp, dwp + p * d, rows * p / pieces, rows * (p + 1) / pieces, d);
      });
    });
    return {dx, dw.sum(0).to(w.scalar_type()), at::Tensor()};
  }
};

// RMSNorm whose second result is x: the gradients of both results are added in one operation.
struct NormAndInput : torch::autograd::Function<NormAndInput> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, const at::Tensor &w,
                                                double eps) {
    auto [y, inv] = run_forward(x, w, eps);
    ctx->save_for_backward({x, w, inv});
    return {y, x};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    if (!grads[0].defined()) return {grads[1], at::Tensor(), at::Tensor()};
    const at::Tensor other = grads[1].defined() ? grads[1].contiguous() : at::Tensor();
    return backward_gpu(saved[0], saved[1], grads[0].contiguous(), saved[2], other);
  }
};

}  // namespace

at::Tensor rmsnorm(const at::Tensor &x, const at::Tensor &w, double eps) {
  TORCH_CHECK(x.dim() >= 1 && w.dim() == 1 && w.size(0) == x.size(-1), "rmsnorm: x ", x.sizes(), " needs w [",
              x.dim() > 0 ? x.size(-1) : 0, "], not ", w.sizes());
  same_device("rmsnorm", x, w);
  if (!(has_kernel(x) || gpu::ready(x)) || x.scalar_type() != w.scalar_type()) {
    const at::Tensor xc = x.to(compute_type(x.scalar_type()));
    return (xc * at::rsqrt(xc.square().mean(-1, true) + eps)).to(x.scalar_type()) * w;
  }
  const at::Tensor xc = x.contiguous(), wc = w.contiguous();
  if (wants_grad(x, w)) return RMSNorm::apply(xc, wc, eps);
  return run_forward(xc, wc, eps).first;
}

namespace {

std::pair<at::Tensor, at::Tensor> rmsnorm_residual(const at::Tensor &x, const at::Tensor &w, double eps) {
  const bool fused = gpu::ready(x) && x.scalar_type() == w.scalar_type() && x.is_contiguous() && w.is_contiguous() && w.dim() == 1 &&
                     x.dim() >= 1 && w.size(0) == x.size(-1) && w.device() == x.device();
  if (!fused || !wants_grad(x, w)) return {rmsnorm(x, w, eps), x};
  const auto r = NormAndInput::apply(x, w, eps);
  return {r[0], r[1]};
}

}  // namespace
}  // namespace om

const char *om_rmsnorm(om_tensor x, om_tensor w, double eps, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::rmsnorm(om::ref(x), om::ref(w), eps)); }
  OM_END
}

const char *om_rmsnorm_residual(om_tensor x, om_tensor w, double eps, om_tensor *out, om_tensor *residual) {
  OM_TRY {
    const auto r = om::rmsnorm_residual(om::ref(x), om::ref(w), eps);
    *out = om::wrap(r.first);
    *residual = om::wrap(r.second);
  }
  OM_END
}
