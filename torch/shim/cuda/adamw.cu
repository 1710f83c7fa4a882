// A step of AdamW on one tensor, with the factors of fused_adamw.cc.
#include "common.h"

// p, m and v are float32, g has the type of the kernel's name; copy, if not null, receives p in bfloat16.
template <class G>
OM_DEVICE void adamw_range(float *p, const G *g, float *m, float *v, bf16 *copy, long long n, float decay, float one_minus_beta1,
                           float beta2, float one_minus_beta2, float rate, float root, float eps, float grad_scale) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const float gi = load(g + i) * grad_scale;
    const float mi = m[i] + (gi - m[i]) * one_minus_beta1, vi = v[i] * beta2 + gi * gi * one_minus_beta2;
    const float pi = p[i] * decay - mi / (sqrtf(vi) / root + eps) * rate;
    m[i] = mi;
    v[i] = vi;
    p[i] = pi;
    if (copy != nullptr) store(copy + i, pi);
  }
}

#define OM_ADAMW(G, name)                                                                                                \
  OM_KERNEL adamw_##name(float *p, const G *g, float *m, float *v, bf16 *copy, long long n, float decay,                 \
                         float one_minus_beta1, float beta2, float one_minus_beta2, float rate, float root, float eps,   \
                         float grad_scale) {                                                                             \
    adamw_range(p, g, m, v, copy, n, decay, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, grad_scale);       \
  }
OM_ADAMW(float, f32)
OM_ADAMW(bf16, bf16)
