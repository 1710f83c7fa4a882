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

// Adds the rows of partial [rows, d] to g, or writes their sum. One block runs it.
template <class T>
OM_DEVICE void sum_rows(const float *partial, long long rows, long long stride, T *g, bool add, int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    float sum = add ? load(g + i) : 0;
    for (long long r = 0; r < rows; r++) sum += partial[r * stride + i];
    store(g + i, sum);
  }
}

// One block a piece of the rows: dx = s (g - n mean(g n)) + other with n = x·s and g = dy·w; other may be null. If gw is not null,
// the block that finishes last writes Σ dy n to it, or adds it. partial is [pieces, d], *counter is 0 before and after.
template <class T>
OM_DEVICE void rmsnorm_piece(const T *x, const T *w, const T *dy, const float *inv, const T *other, T *dx, float *partial, int *counter,
                             T *gw, bool add, long long rows, int d) {
  const long long piece = blockIdx.x, pieces = gridDim.x;
  float *dw = partial + piece * d;
  if (gw != nullptr)
    for (int i = threadIdx.x; i < d; i += blockDim.x) dw[i] = 0;
  for (long long r = rows * piece / pieces; r < rows * (piece + 1) / pieces; r++) {
    const T *xr = x + r * d, *gr = dy + r * d;
    const float s = inv[r];
    float dot = 0;
    for (int i = threadIdx.x; i < d; i += blockDim.x) dot += load(gr + i) * load(w + i) * load(xr + i);
    const float mean = block_sum(dot) * s * s / d;
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
      const float xi = load(xr + i), gi = load(gr + i);
      float dxi = (gi * load(w + i) - xi * mean) * s;
      if (other != nullptr) dxi = rounded<T>(dxi) + load(other + r * d + i);
      store(dx + r * d + i, dxi);
      if (gw != nullptr) dw[i] += gi * rounded<T>(xi * s);
    }
  }
  if (gw != nullptr && last_block(counter, pieces)) sum_rows(partial, pieces, d, gw, add, d);
}

// One warp: dx, the gradient of x, from that of y. Adds the gradient of w to dw [2·half].
template <class T>
OM_DEVICE void head_backward(const T *dy, const T *x, const T *w, float eps, const float *cos, const float *sin, T *dx, float *dw,
                             int half) {
  const int lane = threadIdx.x % kLanes, dim = 2 * half;
  float squares = 0, dot = 0;
  for (int j = lane; j < half; j += kLanes) {
    const float a = load(dy + j), b = load(dy + half + j), c = cos[j], s = sin[j];
    const float ga = rounded<T>(a * c + b * s), gb = rounded<T>(b * c - a * s);
    if (w == nullptr) {
      store(dx + j, ga);
      store(dx + half + j, gb);
      continue;
    }
    const float xa = load(x + j), xb = load(x + half + j);
    squares += xa * xa + xb * xb;
    dot += ga * load(w + j) * xa + gb * load(w + half + j) * xb;
  }
  if (w == nullptr) return;
  const float s = rsqrtf(warp_sum(squares) / dim + eps), mean = warp_sum(dot) * s * s / dim;
  for (int j = lane; j < half; j += kLanes) {
    const float a = load(dy + j), b = load(dy + half + j), c = cos[j], sn = sin[j];
    const float ga = rounded<T>(a * c + b * sn), gb = rounded<T>(b * c - a * sn), xa = load(x + j), xb = load(x + half + j);
    store(dx + j, (ga * load(w + j) - xa * mean) * s);
    store(dx + half + j, (gb * load(w + half + j) - xb * mean) * s);
    dw[j] += ga * rounded<T>(xa * s);
    dw[half + j] += gb * rounded<T>(xb * s);
  }
}

// One block a token: head_forward of the query heads q [heads, 2·half] and the key heads k.
template <class T>
OM_DEVICE void heads_token(const T *q, const T *k, long long q_stride, long long k_stride, const T *qw, const T *kw, float q_eps,
                           float k_eps, const float *cos, const float *sin, T *qo, T *ko, int heads, int kv_heads, int half) {
  const long long t = blockIdx.x;
  const int warps = blockDim.x / kLanes, dim = 2 * half;
  cos += t * half;
  sin += t * half;
  for (int h = threadIdx.x / kLanes; h < heads + kv_heads; h += warps) {
    const int i = h - heads;
    if (i < 0)
      head_forward(q + t * q_stride + h * dim, qw, q_eps, cos, sin, qo + (t * heads + h) * dim, half);
    else
      head_forward(k + t * k_stride + i * dim, kw, k_eps, cos, sin, ko + (t * kv_heads + i) * dim, half);
  }
}

// One block for every gridDim.x-th token: the gradients of the heads, and a copy of dv, to the token's row of out
// [tokens, (heads + 2 kv_heads) · 2·half]. With a norm, the block that finishes last writes the gradients of qw and kw to gq and gk,
// where these are not null, or adds them. partial is [blocks, warps of a block, 2 · 2·half], *counter is 0 before and after.
template <class T>
OM_DEVICE void heads_back(const T *dq, const T *dk, const T *dv, const T *q, const T *k, long long q_stride, long long k_stride,
                          const T *qw, const T *kw, float q_eps, float k_eps, const float *cos, const float *sin, T *out,
                          float *partial, int *counter, T *gq, T *gk, bool add_q, bool add_k, int tokens, int heads, int kv_heads,
                          int half) {
  const int warps = blockDim.x / kLanes, warp = threadIdx.x / kLanes, dim = 2 * half;
  const bool norm = qw != nullptr || kw != nullptr;
  float *dw = partial + (static_cast<long long>(blockIdx.x) * warps + warp) * 2 * dim;
  if (norm)
    for (int i = 0; i < 2; i++)  // the lanes write to the places that they add to in head_backward
      for (int j = threadIdx.x % kLanes; j < half; j += kLanes) dw[i * dim + j] = dw[i * dim + half + j] = 0;
  for (long long t = blockIdx.x; t < tokens; t += gridDim.x) {
    const float *c = cos + t * half, *s = sin + t * half;
    T *row = out + t * (heads + 2 * kv_heads) * dim;
    for (int h = warp; h < heads + kv_heads; h += warps) {
      const int i = h - heads;
      if (i < 0)
        head_backward(dq + (t * heads + h) * dim, q + t * q_stride + h * dim, qw, q_eps, c, s, row + h * dim, dw, half);
      else
        head_backward(dk + (t * kv_heads + i) * dim, k + t * k_stride + i * dim, kw, k_eps, c, s, row + h * dim, dw + dim, half);
    }
    for (int i = threadIdx.x; i < kv_heads * dim; i += blockDim.x) row[(heads + kv_heads) * dim + i] = dv[t * kv_heads * dim + i];
  }
  if (!norm || !last_block(counter, gridDim.x)) return;
  const long long rows = static_cast<long long>(gridDim.x) * warps;
  if (gq != nullptr) sum_rows(partial, rows, 2 * dim, gq, add_q, dim);
  if (gk != nullptr) sum_rows(partial + dim, rows, 2 * dim, gk, add_k, dim);
}

OM_DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// gate and up are rows of `width` elements, `stride` apart; the blocks of a row share its elements.
template <class T>
OM_DEVICE void swiglu_row(const T *gate, const T *up, long long stride, T *y, int width) {
  const long long row = blockIdx.x;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < width; i += gridDim.y * blockDim.x) {
    const float g = load(gate + row * stride + i);
    store(y + row * width + i, rounded<T>(g * sigmoid(g)) * load(up + row * stride + i));
  }
}

// out has the gradients of gate and up, one after another in a row.
template <class T>
OM_DEVICE void swiglu_back(const T *gate, const T *up, long long stride, const T *dy, T *out, int width) {
  const long long row = blockIdx.x;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < width; i += gridDim.y * blockDim.x) {
    const float g = load(gate + row * stride + i), u = load(up + row * stride + i), d = load(dy + row * width + i), s = sigmoid(g);
    store(out + row * 2 * width + i, d * u * s * (1 + g * (1 - s)));
    store(out + row * 2 * width + width + i, d * g * s);
  }
}

#define OM_LAYERS(T, name)                                                                                               \
  OM_KERNEL rmsnorm_##name(const T *x, const T *w, T *y, float *inv, int d, float eps) {                                 \
    rmsnorm_row(x, w, y, inv, d, eps);                                                                                   \
  }                                                                                                                      \
  OM_KERNEL rmsnorm_backward_##name(const T *x, const T *w, const T *dy, const float *inv, const T *other, T *dx,        \
                                    float *partial, int *counter, T *gw, int add, long long rows, int d) {               \
    rmsnorm_piece(x, w, dy, inv, other, dx, partial, counter, gw, add != 0, rows, d);                                    \
  }                                                                                                                      \
  OM_KERNEL rope_##name(const T *q, long long token_stride, long long head_stride, const float *cos, const float *sin,   \
                        float sign, T *out, int heads, int half) {                                                       \
    const long long t = blockIdx.x; /* one block a token */                                                              \
    rotate_heads(q + t * token_stride, head_stride, cos + t * half, sin + t * half, sign, out + t * heads * half * 2,    \
                 heads, half);                                                                                           \
  }                                                                                                                      \
  OM_KERNEL heads_##name(const T *q, const T *k, long long q_stride, long long k_stride, const T *qw, const T *kw,       \
                         float q_eps, float k_eps, const float *cos, const float *sin, T *qo, T *ko, int heads,          \
                         int kv_heads, int half) {                                                                       \
    heads_token(q, k, q_stride, k_stride, qw, kw, q_eps, k_eps, cos, sin, qo, ko, heads, kv_heads, half);                \
  }                                                                                                                      \
  OM_KERNEL heads_backward_##name(const T *dq, const T *dk, const T *dv, const T *q, const T *k, long long q_stride,     \
                                  long long k_stride, const T *qw, const T *kw, float q_eps, float k_eps,                \
                                  const float *cos, const float *sin, T *out, float *partial, int *counter, T *gq,       \
                                  T *gk, int add_q, int add_k, int tokens, int heads, int kv_heads, int half) {          \
    heads_back(dq, dk, dv, q, k, q_stride, k_stride, qw, kw, q_eps, k_eps, cos, sin, out, partial, counter, gq, gk,      \
               add_q != 0, add_k != 0, tokens, heads, kv_heads, half);                                                   \
  }                                                                                                                      \
  OM_KERNEL swiglu_##name(const T *gate, const T *up, long long stride, T *y, int width) {                               \
    swiglu_row(gate, up, stride, y, width);                                                                              \
  }                                                                                                                      \
  OM_KERNEL swiglu_backward_##name(const T *gate, const T *up, long long stride, const T *dy, T *out, int width) {       \
    swiglu_back(gate, up, stride, dy, out, width);                                                                       \
  }
OM_LAYERS(float, f32)
OM_LAYERS(bf16, bf16)
