// SwiGLU: silu(gate) · up, silu(g) = g σ(g), rounded to the operands' type before the product as transformers does.
#include "fused.h"
#include "gpu.h"
#include "gradient.h"

namespace om {
namespace {

template <class T, int W>
OM_INLINE typename Lanes<T, W>::V sigmoid(const typename Lanes<T, W>::V &g) {
  using A = typename Lanes<T, W>::A;
  return A(1) / (A(1) + exp_lanes<W>(-g));
}

template <class T, int W>
OM_INLINE void forward_range(const T *gate, const T *up, T *y, int64_t n) {
  using V = typename Lanes<T, W>::V;
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    const V g = load<W>(gate + i, c);
    store<W>(y + i, round_lanes<T, W>(g * sigmoid<T, W>(g)) * load<W>(up + i, c), c);
  });
}

// d silu(g) = σ (1 + g (1 - σ)).
template <class T, int W>
OM_INLINE void backward_range(const T *gate, const T *up, const T *dy, T *dgate, T *dup, int64_t n) {
  using A = typename Lanes<T, W>::A;
  using V = typename Lanes<T, W>::V;
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    const V g = load<W>(gate + i, c), u = load<W>(up + i, c), d = load<W>(dy + i, c), s = sigmoid<T, W>(g);
    store<W>(dgate + i, d * u * s * (A(1) + g * (A(1) - s)), c);
    store<W>(dup + i, d * g * s, c);
  });
}

#define OM_SWIGLU(T)                                                                                          \
  OM_MULTIVERSION(forward, (const T *gate, const T *up, T *y, int64_t n), (gate, up, y, n),                   \
                  forward_range<T, W>(gate, up, y, n))                                                        \
  OM_MULTIVERSION(backward, (const T *gate, const T *up, const T *dy, T *dgate, T *dup, int64_t n),           \
                  (gate, up, dy, dgate, dup, n), backward_range<T, W>(gate, up, dy, dgate, dup, n))
OM_SWIGLU(float)
OM_SWIGLU(c10::BFloat16)
OM_SWIGLU(double)

// The kernels of a GPU take rows of gate and up that are parts of wider rows, as those of one product with both weights are.
bool same_rows(const at::Tensor &gate, const at::Tensor &up) {
  return gate.dim() == 2 && gate.stride(1) == 1 && gate.strides() == up.strides();
}

// Blocks of 256 threads share a row of `width` elements, at most this many a row.
int64_t row_blocks(int64_t width) { return std::max<int64_t>(1, std::min<int64_t>(ceil_div(width, 512), 65535)); }

at::Tensor run_forward(const at::Tensor &gate, const at::Tensor &up) {
  if (gpu::ready(gate)) {
    const int64_t rows = gate.size(0), width = gate.size(1);
    at::Tensor y = at::empty({rows, width}, gate.options());
    gpu::Call("swiglu", gate)(gate)(up)(gate.stride(0))(y)(static_cast<int>(width)).run(rows, row_blocks(width), 1, 256);
    return y;
  }
  at::Tensor y = at::empty_like(gate);
  OM_DISPATCH(gate.scalar_type(), "swiglu", [&] {
    const scalar_t *g = gate.const_data_ptr<scalar_t>(), *u = up.const_data_ptr<scalar_t>();
    scalar_t *o = y.data_ptr<scalar_t>();
    parallel_for(0, gate.numel(), 8192, [&](int64_t b, int64_t e) { forward(g + b, u + b, o + b, e - b); });
  });
  return y;
}

struct SwiGLU : torch::autograd::Function<SwiGLU> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &gate, const at::Tensor &up) {
    ctx->save_for_backward({gate, up});
    return run_forward(gate, up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], dy = grads[0].contiguous();
    if (gpu::ready(gate)) {
      const int64_t rows = gate.size(0), width = gate.size(1);
      at::Tensor out = at::empty({rows, 2 * width}, gate.options());
      gpu::Call("swiglu_backward", gate)(gate)(up)(gate.stride(0))(dy)(out)(static_cast<int>(width))
          .run(rows, row_blocks(width), 1, 256);
      return parts(out, 1, {width, width});
    }
    at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
    OM_DISPATCH(gate.scalar_type(), "swiglu backward", [&] {
      const scalar_t *g = gate.const_data_ptr<scalar_t>(), *u = up.const_data_ptr<scalar_t>(),
                     *d = dy.const_data_ptr<scalar_t>();
      scalar_t *dg = dgate.data_ptr<scalar_t>(), *du = dup.data_ptr<scalar_t>();
      parallel_for(0, gate.numel(), 8192, [&](int64_t b, int64_t e) {
        om::backward(g + b, u + b, d + b, dg + b, du + b, e - b);
      });
    });
    return {dgate, dup};
  }
};

at::Tensor swiglu(const at::Tensor &gate, const at::Tensor &up) {
  TORCH_CHECK(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(), "swiglu: gate ", gate.sizes(), " ",
              gate.scalar_type(), " and up ", up.sizes(), " ", up.scalar_type(), " must be alike");
  same_device("swiglu", gate, up);
  if (!has_kernel(gate) && !gpu::ready(gate)) return at::silu(gate) * up;
  auto apply = [&](const at::Tensor &g, const at::Tensor &u) {
    return wants_grad(gate, up) ? SwiGLU::apply(g, u) : run_forward(g, u);
  };
  if (!gpu::ready(gate)) return apply(gate.contiguous(), up.contiguous());
  if (same_rows(gate, up)) return apply(gate, up);
  const int64_t width = gate.dim() == 0 ? 1 : gate.size(-1), rows = width == 0 ? 0 : gate.numel() / width;
  return apply(gate.reshape({rows, width}).contiguous(), up.reshape({rows, width}).contiguous()).view(gate.sizes());
}

}  // namespace
}  // namespace om

const char *om_swiglu(om_tensor gate, om_tensor up, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::swiglu(om::ref(gate), om::ref(up))); }
  OM_END
}
