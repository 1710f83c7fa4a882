// The layers of a decoder, forward and backward: RMSNorm, rotation of heads, SwiGLU. The formulas and the roundings are those of
// fused_rmsnorm.cc, fused_rope.cc and fused_swiglu.cc; sums are in float32.
#include "common.h"
#include "rotate.h"

// One block a row: y = round(x·s)·w with s = 1/√(mean(x²) + eps), kept in inv.
template <class T>
OM_DEVICE void rmsnorm_row(const T *x, const T *w, T *y, float *inv, int d, float eps) {
  const long long row = blockIdx.x;
  x += row * d;
  y += row * d;
  float squares = 0;
  for (int i = threadIdx.x; i < d; i += blockDim.x) squares += load(x + i) * load(x + i);
  const float s = rsqrtf(block_sum(squares) / d + eps);
  if (threadIdx.x == 0) inv[row] = s;
  for (int i = threadIdx.x; i < d; i += blockDim.x) store(y + i, rounded<T>(load(x + i) * s) * load(w + i));
}

// One block a piece of the rows: dx = s (g - n mean(g n)) with n = x·s and g = dy·w; dw [pieces, d] = Σ dy n.
template <class T>
OM_DEVICE void rmsnorm_piece(const T *x, const T *w, const T *dy, const float *inv, T *dx, float *dw, long long rows, int d) {
  const long long piece = blockIdx.x, pieces = gridDim.x;
  dw += piece * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) dw[i] = 0;
  for (long long r = rows * piece / pieces; r < rows * (piece + 1) / pieces; r++) {
    const T *xr = x + r * d, *gr = dy + r * d;
    const float s = inv[r];
    float dot = 0;
    for (int i = threadIdx.x; i < d; i += blockDim.x) dot += load(gr + i) * load(w + i) * load(xr + i);
    const float mean = block_sum(dot) * s * s / d;
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
      const float xi = load(xr + i), gi = load(gr + i);
      store(dx + r * d + i, (gi * load(w + i) - xi * mean) * s);
      dw[i] += gi * rounded<T>(xi * s);
    }
  }
}

OM_DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

template <class T>
OM_DEVICE void swiglu_range(const T *gate, const T *up, T *y, long long n) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const float g = load(gate + i);
    store(y + i, rounded<T>(g * sigmoid(g)) * load(up + i));
  }
}

template <class T>
OM_DEVICE void swiglu_back(const T *gate, const T *up, const T *dy, T *dgate, T *dup, long long n) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const float g = load(gate + i), u = load(up + i), d = load(dy + i), s = sigmoid(g);
    store(dgate + i, d * u * s * (1 + g * (1 - s)));
    store(dup + i, d * g * s);
  }
}

#define OM_LAYERS(T, name)                                                                                          \
  OM_KERNEL rmsnorm_##name(const T *x, const T *w, T *y, float *inv, int d, float eps) {                            \
    rmsnorm_row(x, w, y, inv, d, eps);                                                                              \
  }                                                                                                                 \
  OM_KERNEL rmsnorm_backward_##name(const T *x, const T *w, const T *dy, const float *inv, T *dx, float *dw,        \
                                    long long rows, int d) {                                                        \
    rmsnorm_piece(x, w, dy, inv, dx, dw, rows, d);                                                                  \
  }                                                                                                                 \
  OM_KERNEL rope_##name(const T *q, long long token_stride, long long head_stride, const float *cos,                \
                        const float *sin, float sign, T *out, int heads, int half) {                                \
    const long long t = blockIdx.x; /* one block a token */                                                         \
    rotate_heads(q + t * token_stride, head_stride, cos + t * half, sin + t * half, sign, out + t * heads * half * 2, \
                 heads, half);                                                                                      \
  }                                                                                                                 \
  OM_KERNEL swiglu_##name(const T *gate, const T *up, T *y, long long n) { swiglu_range(gate, up, y, n); }          \
  OM_KERNEL swiglu_backward_##name(const T *gate, const T *up, const T *dy, T *dgate, T *dup, long long n) {        \
    swiglu_back(gate, up, dy, dgate, dup, n);                                                                       \
  }
OM_LAYERS(float, f32)
OM_LAYERS(bf16, bf16)
