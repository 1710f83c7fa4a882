// Rotary position embedding of a token's heads.
#ifndef OM_ROTATE_H
#define OM_ROTATE_H

#include "common.h"

// Rotates heads, a [2·half] at q + h·stride each, by the angles of cos and sin [half] to out [heads, 2·half]; sign -1 inverts.
template <class T>
OM_DEVICE void rotate_heads(const T *q, long long stride, const float *cos, const float *sin, float sign, T *out, int heads,
                            int half) {
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    const int h = i / half, j = i % half;
    const T *a = q + h * stride + j;
    const float x = load(a), y = load(a + half), c = cos[j], s = sin[j] * sign;
    store(out + h * half * 2 + j, x * c - y * s);
    store(out + h * half * 2 + half + j, y * c + x * s);
  }
}

// One warp: y = the head x [2·half], normalised by w as in rmsnorm_row (layers.cu) if w is not null, and rotated by the angles of cos and sin.
template <class T>
OM_DEVICE void head_forward(const T *x, const T *w, float eps, const float *cos, const float *sin, T *y, int half) {
  const int lane = threadIdx.x % kLanes, dim = 2 * half;
  float s = 1;
  if (w != nullptr) {
    float squares = 0;
    for (int i = lane; i < dim; i += kLanes) squares += load(x + i) * load(x + i);
    s = rsqrtf(warp_sum(squares) / dim + eps);
  }
  for (int j = lane; j < half; j += kLanes) {
    float a = load(x + j), b = load(x + half + j);
    if (w != nullptr) {
      a = rounded<T>(rounded<T>(a * s) * load(w + j));
      b = rounded<T>(rounded<T>(b * s) * load(w + half + j));
    }
    store(y + j, a * cos[j] - b * sin[j]);
    store(y + half + j, b * cos[j] + a * sin[j]);
  }
}

// Rotates heads as rotate_heads does, after their norm if w is not null. The heads are contiguous.
template <class T>
OM_DEVICE void turn_heads(const T *q, const T *w, float eps, const float *cos, const float *sin, T *out, int heads, int half) {
  if (w == nullptr) {
    rotate_heads(q, half * 2, cos, sin, 1, out, heads, half);
    return;
  }
  for (int h = threadIdx.x / kLanes; h < heads; h += blockDim.x / kLanes)
    head_forward(q + h * half * 2, w, eps, cos, sin, out + h * half * 2, half);
}

#endif
