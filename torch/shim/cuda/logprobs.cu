// The softmax of rows of logits z [rows, n], float32, and its gradient, with the formulas of fused_token_logprobs.cc. A block reduces a
// row; in the other kernels the blocks of a row share its elements.
#include "common.h"

constexpr float kLowestLogit = -200;  // replaces logits of -inf, since 0 · inf would be NaN

OM_DEVICE float at_least_lowest(float u) { return u < kLowestLogit ? kLowestLogit : u; }  // a NaN stays

// The largest x of the threads of a block, at most 1024 and a power of 2, in every thread.
OM_DEVICE float largest_of_threads(float x) {
  __shared__ float part[1024];
  __syncthreads();  // the threads have read the result of the previous call
  part[threadIdx.x] = x;
  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + d]);
  }
  __syncthreads();
  return part[0];
}

// One block a row: sums [rows, 3] receives the largest logit, log Σ e^((z - largest)/T) and the entropy; logp the log-prob of the
// row's target.
OM_DEVICE void softmax_row(const float *z, const long long *targets, float scale, float *sums, float *logp, int n) {
  const long long row = blockIdx.x;
  z += row * n;
  float top = z[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, z[i]);
  top = largest_of_threads(top);
  double own_sum = 0, own_weighted = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float u = at_least_lowest((z[i] - top) * scale), e = expf(u);
    own_sum += e;
    own_weighted += e * u;
  }
  const float sum = block_sum(static_cast<float>(own_sum)), weighted = block_sum(static_cast<float>(own_weighted));
  if (threadIdx.x != 0) return;
  const float log_sum = logf(sum);
  sums[row * 3] = top;
  sums[row * 3 + 1] = log_sum;
  sums[row * 3 + 2] = log_sum - weighted / sum;
  logp[row] = (z[targets[row]] - top) * scale - log_sum;
}

// d = the gradient of the logits, for the gradients g of the log-prob and h of the entropy of each row. d may be z.
template <class T>
OM_DEVICE void softmax_back(const float *z, const long long *targets, float scale, const float *sums, const float *g, const float *h,
                            T *d, int n) {
  const long long row = blockIdx.x;
  const float top = sums[row * 3], log_sum = sums[row * 3 + 1], entropy = sums[row * 3 + 2], gr = g[row], hr = h[row];
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < n; i += gridDim.y * blockDim.x) {
    const float log_p = at_least_lowest((z[row * n + i] - top) * scale - log_sum), p = expf(log_p);
    const float own = i == targets[row] ? gr : 0;
    store(d + row * n + i, (own - p * (gr + hr * (log_p + entropy))) * scale);
  }
}

// Sets the logits of the tokens that are not among ids[offsets[row]] … ids[offsets[row+1]-1], which rise, to -inf, unless that list is
// empty.
OM_DEVICE void keep_row(float *z, const long long *offsets, const int *ids, int n) {
  const long long row = blockIdx.x, begin = offsets[row], end = offsets[row + 1];
  if (begin == end) return;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < n; i += gridDim.y * blockDim.x) {
    long long low = begin, high = end;  // the first id that is not below i
    while (low < high) {
      const long long middle = (low + high) / 2;
      if (ids[middle] < i)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == end || ids[low] != i) z[row * n + i] = bits_to_float(0xff800000u);
  }
}

OM_KERNEL softmax_f32(const float *z, const long long *targets, float scale, float *sums, float *logp, int n) {
  softmax_row(z, targets, scale, sums, logp, n);
}
OM_KERNEL softmax_keep_f32(float *z, const long long *offsets, const int *ids, int n) { keep_row(z, offsets, ids, n); }

#define OM_SOFTMAX(T, name)                                                                                                      \
  OM_KERNEL softmax_backward_##name(const float *z, const long long *targets, float scale, const float *sums, const float *g,    \
                                    const float *h, T *d, int n) {                                                               \
    softmax_back(z, targets, scale, sums, g, h, d, n);                                                                           \
  }
OM_SOFTMAX(float, f32)
OM_SOFTMAX(bf16, bf16)
