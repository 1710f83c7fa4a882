// Linear layers of a few rows, as decoding has them: the time goes into reading the weights, and ATen's matrix-vector
// product reads them at a third of what the memory gives. Every output is one dot product in one fixed order,
// whatever the number of rows, so that a row does not feel the others.
#include <vector>

#include "fused.h"

namespace om {
namespace {

constexpr int kOut = 4;   // outputs done together
constexpr int kRows = 4;  // rows done together

// y[r, o] for R rows of x [., k] and kOut rows of w [., k].
template <class T, int W, int R, int O>
OM_INLINE void tile(const float *x, const T *w, int64_t k, float *y) {
  using V = typename Vectors<W>::f32;
  V acc[R][O] = {};
  for_lanes<float, W>(k, [&](int64_t i, auto c) OM_LAMBDA {
    V wi[O];
    for (int o = 0; o < O; o++) wi[o] = load<W>(w + o * k + i, c);
    for (int r = 0; r < R; r++) {
      const V xi = load<W>(x + r * k + i, c);
      for (int o = 0; o < O; o++) acc[r][o] += xi * wi[o];
    }
  });
  for (int r = 0; r < R; r++)
    for (int o = 0; o < O; o++) y[r * O + o] = sum_lanes<W>(acc[r][o]);
}

template <class T, int W, int O>
OM_INLINE void outputs(const float *x, int64_t rows, const T *w, int64_t k, float *y) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) tile<T, W, kRows, O>(x + r * k, w, k, y + r * O);
  switch (rows - r) {
    case 3:
      return tile<T, W, 3, O>(x + r * k, w, k, y + r * O);
    case 2:
      return tile<T, W, 2, O>(x + r * k, w, k, y + r * O);
    case 1:
      return tile<T, W, 1, O>(x + r * k, w, k, y + r * O);
  }
}

// y [rows, O] for O = n outputs, kOut or 1.
template <class T, int W>
OM_INLINE void outputs_body(const float *x, int64_t rows, const T *w, int64_t k, int64_t n, float *y) {
  if (n == kOut)
    outputs<T, W, kOut>(x, rows, w, k, y);
  else
    outputs<T, W, 1>(x, rows, w, k, y);
}

#define OM_SKINNY(T)                                                                                               \
  OM_MULTIVERSION(some_outputs, (const float *x, int64_t rows, const T *w, int64_t k, int64_t n, float *y),        \
                  (x, rows, w, k, n, y), outputs_body<T, W>(x, rows, w, k, n, y))
OM_SKINNY(float)
OM_SKINNY(c10::BFloat16)

void put(const at::Tensor &out, int64_t at, float v) {
  if (out.scalar_type() == at::kFloat)
    static_cast<float *>(out.data_ptr())[at] = v;
  else
    static_cast<at::BFloat16 *>(out.data_ptr())[at] = v;
}

// One of several weights that the same x is multiplied with.
struct Layer {
  at::Tensor w, bias, out;
  int64_t groups;  // of kOut outputs, the last one shorter perhaps
};

// Does the outputs of one group.
void do_group(const Layer &l, const float *x, int64_t rows, int64_t k, int64_t group) {
  const int64_t outs = l.w.size(0), first = group * kOut, last = std::min(first + kOut, outs);
  const int64_t width = last - first == kOut ? kOut : 1;
  float y[OM_SKINNY_ROWS * kOut];
  for (int64_t o = first; o < last; o += width) {
    if (l.w.scalar_type() == at::kFloat)
      some_outputs(x, rows, static_cast<const float *>(l.w.const_data_ptr()) + o * k, k, width, y);
    else
      some_outputs(x, rows, static_cast<const at::BFloat16 *>(l.w.const_data_ptr()) + o * k, k, width, y);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < width; j++) {
        const float b = l.bias.defined() ? static_cast<const float *>(l.bias.const_data_ptr())[o + j] : 0;
        put(l.out, r * outs + o + j, y[r * width + j] + b);
      }
  }
}

std::vector<at::Tensor> linear_skinny(const at::Tensor &x, const std::vector<at::Tensor> &ws,
                                      const std::vector<at::Tensor> &biases) {
  for (const auto &w : ws)
    TORCH_CHECK(!wants_grad(x, w), "linear: the kernels for few rows have no gradient; use them inside NoGrad");
  at::NoGradGuard no_grad;
  TORCH_CHECK(x.dim() >= 1, "linear: x has no dimension");
  const int64_t k = x.size(-1), rows = k == 0 ? 0 : x.numel() / k;
  TORCH_CHECK(rows <= OM_SKINNY_ROWS, "linear: x ", x.sizes(), " has more than ", OM_SKINNY_ROWS, " rows");
  bool kernel = has_kernel(x) && x.scalar_type() != at::kDouble;
  for (size_t i = 0; i < ws.size(); i++) {
    const at::Tensor &w = ws[i], &b = biases[i];
    TORCH_CHECK(w.dim() == 2 && w.size(1) == k, "linear: x ", x.sizes(), " needs a weight [M,", k, "], not ", w.sizes());
    TORCH_CHECK(!b.defined() || (b.dim() == 1 && b.size(0) == w.size(0)), "linear: weight ", w.sizes(),
                " needs a bias [", w.size(0), "]");
    kernel = kernel && has_kernel(w) && w.scalar_type() != at::kDouble && w.is_contiguous();
  }
  std::vector<at::Tensor> outs;
  if (!kernel) {
    for (size_t i = 0; i < ws.size(); i++) {
      const at::Tensor b = biases[i].defined() ? biases[i].to(ws[i].scalar_type()) : at::Tensor();
      outs.push_back(at::linear(x.to(ws[i].scalar_type()), ws[i], b).to(x.scalar_type()));
    }
    return outs;
  }
  std::vector<Layer> layers;
  int64_t groups = 0;
  for (size_t i = 0; i < ws.size(); i++) {
    auto shape = x.sizes().vec();
    shape.back() = ws[i].size(0);
    outs.push_back(at::empty(shape, x.options()));
    const at::Tensor b = biases[i].defined() ? biases[i].to(at::kFloat).contiguous() : at::Tensor();
    layers.push_back({ws[i], b, outs.back(), ceil_div(ws[i].size(0), kOut)});
    groups += layers.back().groups;
  }
  const at::Tensor xf = x.to(at::kFloat).contiguous();
  const float *xp = xf.const_data_ptr<float>();
  at::parallel_for(0, groups, grain(kOut * k), [&](int64_t b, int64_t e) {
    int64_t start = 0;
    for (const Layer &l : layers) {
      for (int64_t g = std::max(b, start); g < std::min(e, start + l.groups); g++) do_group(l, xp, rows, k, g - start);
      start += l.groups;
    }
  });
  return outs;
}

}  // namespace
}  // namespace om

const char *om_linear_skinny(om_tensor x, om_tensor *ws, om_tensor *biases, int64_t n, om_tensor *outs) {
  OM_TRY {
    std::vector<at::Tensor> w(n), b(n);
    for (int64_t i = 0; i < n; i++) {
      w[i] = om::ref(ws[i]);
      if (biases != nullptr) b[i] = om::opt(biases[i]);
    }
    const auto r = om::linear_skinny(om::ref(x), w, b);
    for (int64_t i = 0; i < n; i++) outs[i] = om::wrap(r[i]);
  }
  OM_END
}
