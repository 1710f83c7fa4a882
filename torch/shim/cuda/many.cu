// Operations on many tensors in one launch: a step of AdamW, with the factors of fused_adamw.cc, sums of squares, and copies.
//
// A row of the table describes a tensor: its number of elements, the number of pieces of the tensors before it, and the addresses
// of its operands. A block processes a piece of kManyPiece elements.
#include "common.h"

constexpr int kManyPiece = 8192;

struct ManyRow {
  long long size, first;
  void *operand[5];
};

// The row of this block's piece; begin and end receive the piece's elements.
OM_DEVICE const ManyRow &many_row(const ManyRow *table, int tensors, long long *begin, long long *end) {
  const long long piece = blockIdx.x;
  int low = 0, high = tensors - 1;  // the last row whose first piece is not after this one
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table[middle].first <= piece)
      low = middle;
    else
      high = middle - 1;
  }
  const ManyRow &row = table[low];
  *begin = (piece - row.first) * kManyPiece;
  *end = *begin + kManyPiece < row.size ? *begin + kManyPiece : row.size;
  return row;
}

// The operands are p, g, m, v and copy. p, m and v are float32, g has the type of the kernel's name; copy, if not null, receives p
// in bfloat16.
template <class G>
OM_DEVICE void adamw_piece(const ManyRow *table, int tensors, float decay, float one_minus_beta1, float beta2, float one_minus_beta2,
                           float rate, float root, float eps, float grad_scale) {
  long long begin, end;
  const ManyRow &row = many_row(table, tensors, &begin, &end);
  float *p = static_cast<float *>(row.operand[0]), *m = static_cast<float *>(row.operand[2]), *v = static_cast<float *>(row.operand[3]);
  const G *g = static_cast<const G *>(row.operand[1]);
  bf16 *copy = static_cast<bf16 *>(row.operand[4]);
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const float gi = load(g + i) * grad_scale;
    const float mi = m[i] + (gi - m[i]) * one_minus_beta1, vi = v[i] * beta2 + gi * gi * one_minus_beta2;
    const float pi = p[i] * decay - mi / (sqrtf(vi) / root + eps) * rate;
    m[i] = mi;
    v[i] = vi;
    p[i] = pi;
    if (copy != nullptr) store(copy + i, pi);
  }
}

// The sum over the threads of a block, at most 256 and a power of 2, in every thread.
OM_DEVICE double sum_of_threads(double x) {
  __shared__ double part[256];
  __syncthreads();  // the threads have read the sum of the previous call
  part[threadIdx.x] = x;
  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
  }
  __syncthreads();
  return part[0];
}

// *out = Σ x² over all tensors, whose type is T. partial has a place for each piece; the block that finishes last adds them in
// order. *counter is 0 before and after.
template <class T>
OM_DEVICE void squares_piece(const ManyRow *table, int tensors, double *partial, int *counter, double *out) {
  long long begin, end;
  const ManyRow &row = many_row(table, tensors, &begin, &end);
  const T *x = static_cast<const T *>(row.operand[0]);
  double sum = 0;
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) sum += static_cast<double>(load(x + i)) * load(x + i);
  sum = sum_of_threads(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  if (!last_block(counter, gridDim.x)) return;
  sum = 0;
  for (long long i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
  sum = sum_of_threads(sum);
  if (threadIdx.x == 0) *out = sum;
}

// The first operand, float32, becomes the second one, whose type is T, or its sum with it.
template <class T>
OM_DEVICE void widen_piece(const ManyRow *table, int tensors, bool add) {
  long long begin, end;
  const ManyRow &row = many_row(table, tensors, &begin, &end);
  float *to = static_cast<float *>(row.operand[0]);
  const T *from = static_cast<const T *>(row.operand[1]);
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) to[i] = (add ? to[i] : 0) + load(from + i);
}

// The first operand, whose type is T, becomes the second one, float32.
template <class T>
OM_DEVICE void narrow_piece(const ManyRow *table, int tensors) {
  long long begin, end;
  const ManyRow &row = many_row(table, tensors, &begin, &end);
  T *to = static_cast<T *>(row.operand[0]);
  const float *from = static_cast<const float *>(row.operand[1]);
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) store(to + i, from[i]);
}

#define OM_MANY(T, name)                                                                                                  \
  OM_KERNEL adamw_##name(const void *table, int tensors, float decay, float one_minus_beta1, float beta2,                 \
                         float one_minus_beta2, float rate, float root, float eps, float grad_scale) {                    \
    adamw_piece<T>(static_cast<const ManyRow *>(table), tensors, decay, one_minus_beta1, beta2, one_minus_beta2, rate,    \
                   root, eps, grad_scale);                                                                                \
  }                                                                                                                       \
  OM_KERNEL squares_##name(const void *table, int tensors, double *partial, int *counter, double *out) {                  \
    squares_piece<T>(static_cast<const ManyRow *>(table), tensors, partial, counter, out);                                \
  }                                                                                                                       \
  OM_KERNEL widen_##name(const void *table, int tensors, int add) {                                                       \
    widen_piece<T>(static_cast<const ManyRow *>(table), tensors, add != 0);                                               \
  }                                                                                                                       \
  OM_KERNEL narrow_##name(const void *table, int tensors) {                                                               \
    narrow_piece<T>(static_cast<const ManyRow *>(table), tensors);                                                        \
  }
OM_MANY(float, f32)
OM_MANY(bf16, bf16)
