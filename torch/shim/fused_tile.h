// Products of tiles in the L1 and L2 caches, and helpers of tiled attention. An element of a product is one chain of
// multiply-adds in the order of the inner index, for all tile sizes.
#pragma once

#include <algorithm>
#include <vector>

#include "fused.h"

namespace om {

// c[i, j …] (+)= Σ_k a[i · rs + k · ks] b[k, j …] for R rows and D vectors.
template <class A, int W, int R, int D>
OM_INLINE void multiply_block(const A *a, int64_t rs, int64_t ks, int64_t depth, const A *b, int64_t ldb, A *c, int64_t ldc,
                              bool add) {
  constexpr int n = Lanes<A, W>::n;
  typename Lanes<A, W>::V sum[R][D] = {};
  if (add)
    unroll<R>([&](auto r) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { sum[r][d] = load<W>(c + r * ldc + d * n); }); });
  for (int64_t k = 0; k < depth; k++, a += ks, b += ldb) {
    typename Lanes<A, W>::V bk[D];
    unroll<D>([&](auto d) OM_LAMBDA { bk[d] = load<W>(b + d * n); });
    unroll<R>([&](auto r) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { sum[r][d] += a[r * rs] * bk[d]; }); });
  }
  unroll<R>([&](auto r) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { store<W>(c + r * ldc + d * n, sum[r][d]); }); });
}

template <class A, int W, int D>
OM_INLINE void multiply_columns(const A *a, int64_t rs, int64_t ks, int64_t rows, int64_t depth, const A *b, int64_t ldb,
                                A *c, int64_t ldc, bool add) {
  constexpr int R = W == 64 ? 8 : 4;  // the number of sums that fit the registers
  int64_t i = 0;
  for (; i + R <= rows; i += R) multiply_block<A, W, R, D>(a + i * rs, rs, ks, depth, b, ldb, c + i * ldc, ldc, add);
  for (; i < rows; i++) multiply_block<A, W, 1, D>(a + i * rs, rs, ks, depth, b, ldb, c + i * ldc, ldc, add);
}

// c [rows, columns] (+)= a b, with a[i, k] at i · rs + k · ks, b is [depth, ldb] and columns is a multiple of a
// vector's lanes.
template <class A, int W>
OM_INLINE void multiply(const A *a, int64_t rs, int64_t ks, int64_t rows, int64_t depth, const A *b, int64_t ldb,
                        int64_t columns, A *c, int64_t ldc, bool add) {
  constexpr int n = Lanes<A, W>::n;
  int64_t j = 0;
  for (; j + 2 * n <= columns; j += 2 * n) multiply_columns<A, W, 2>(a, rs, ks, rows, depth, b + j, ldb, c + j, ldc, add);
  for (; j < columns; j += n) multiply_columns<A, W, 1>(a, rs, ks, rows, depth, b + j, ldb, c + j, ldc, add);
}

// e^x for x <= 0 with a relative error of about 1e-7, by the method of exp_lanes. Below -87 it is e^-87, which is negligible
// next to 1 and avoids slow denormal numbers.
template <int W>
OM_INLINE typename Vectors<W>::f32 exp_negative(const typename Vectors<W>::f32 &v) {
  using F = typename Vectors<W>::f32;
  using I = typename Vectors<W>::i32;
  const F low = F{} - 87.0f;
  const F x = v < low ? low : v;
  const float magic = 12582912.0f;
  const F t = x * 1.44269504088896341f + magic;
  const F k = t - magic;
  const F r = (x - k * 0.693359375f) + k * 2.12194440054690583e-4f;
  F p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * (F)(((I)t << 23) + 0x3f800000);
}

template <int W>
OM_INLINE typename Vectors<W>::f64 exp_negative(const typename Vectors<W>::f64 &v) {
  return exp_lanes<W>(v);
}

// Memory for a thread's tiles, aligned to cache lines and kept between calls.
class TileMemory {
 public:
  explicit TileMemory(int64_t bytes) {
    thread_local std::vector<char> kept;
    if (static_cast<int64_t>(kept.size()) < bytes + 64) kept.resize(bytes + 64);
    next_ = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(kept.data()) + 63) & ~uintptr_t{63});
  }
  // take returns memory for n values, which is size<A>(n) bytes long.
  template <class A>
  A *take(int64_t n) {
    A *p = reinterpret_cast<A *>(next_);
    next_ += size<A>(n);
    return p;
  }
  template <class A>
  static int64_t size(int64_t n) {
    return ceil_div(n * static_cast<int64_t>(sizeof(A)), 64) * 64;
  }

 private:
  char *next_;
};

}  // namespace om
