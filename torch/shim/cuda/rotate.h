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

#endif
