// Vectors in plain C++, compiled once per instruction set and selected at run time.
//
// The library is built for baseline x86-64, so that one file runs on every processor; ATen's own vector classes would then
// use the baseline. Kernels are inlined templates over a kind of vector, Lanes<T, W>. OM_MULTIVERSION makes three versions
// of a kernel, with 64-byte vectors for AVX-512, 32-byte vectors for AVX2 and 16-byte vectors for the baseline, and a
// function that selects one. A kernel's order of summation may depend on W, but not on the number of threads.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// Vectors are passed between inlined functions only, so the calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

#define OM_INLINE static inline __attribute__((always_inline))

namespace om {

// cpu_level is 4 with AMX in bfloat16, 3 with AVX-512's bfloat16 and integer (VNNI) products, 2 with AVX-512 (F, BW, DQ, VL), 1 with AVX2 and
// FMA, 0 otherwise. A level includes the lower ones.
int cpu_level();

// set_cpu_level_limit limits the result of cpu_level, so that tests can run the other versions. Under -1 no kernel is used
// (kernels_on).
void set_cpu_level_limit(int level);

#if defined(__x86_64__)
#define OM_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define OM_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#else
#define OM_TARGET_AVX512
#define OM_TARGET_AVX2
#endif

// OM_MULTIVERSION(name, (params), (args), call) defines void name(params); call may use the constant W, the bytes of
// a vector.
#define OM_MULTIVERSION(name, params, args, ...) \
  OM_TARGET_AVX512 static void name##_512 params { \
    constexpr int W = 64;                        \
    __VA_ARGS__;                                 \
  }                                              \
  OM_TARGET_AVX2 static void name##_256 params { \
    constexpr int W = 32;                        \
    __VA_ARGS__;                                 \
  }                                              \
  static void name##_128 params {                \
    constexpr int W = 16;                        \
    __VA_ARGS__;                                 \
  }                                              \
  static void name params { \
    const int level = cpu_level();               \
    if (level >= 2) return name##_512 args;      \
    if (level == 1) return name##_256 args;      \
    name##_128 args;                             \
  }

template <int W>
struct Vectors;

#define OM_VECTORS(W)                                               \
  template <>                                                       \
  struct Vectors<W> {                                               \
    typedef float f32 __attribute__((vector_size(W)));              \
    typedef double f64 __attribute__((vector_size(W)));             \
    typedef int32_t i32 __attribute__((vector_size(W)));            \
    typedef uint32_t u32 __attribute__((vector_size(W)));           \
    typedef uint16_t half_u16 __attribute__((vector_size((W) / 2))); \
    typedef int16_t half_i16 __attribute__((vector_size((W) / 2))); \
    typedef int16_t i16 __attribute__((vector_size(W)));            \
    typedef int8_t half_i8 __attribute__((vector_size((W) / 2)));   \
    typedef int8_t quarter_i8 __attribute__((vector_size((W) / 4))); \
  };
OM_VECTORS(16)
OM_VECTORS(32)
OM_VECTORS(64)
#undef OM_VECTORS

// Lanes<T, W> defines the arithmetic of values stored as T: float for float32, bfloat16 and integers, double for float64. n is the
// number of values in a vector.
template <class T, int W>
struct Lanes {
  using V = typename Vectors<W>::f32;
  using A = float;
  static constexpr int n = W / 4;
};

template <int W>
struct Lanes<double, W> {
  using V = typename Vectors<W>::f64;
  using A = double;
  static constexpr int n = W / 8;
};

template <int W>
OM_INLINE typename Vectors<W>::f32 load(const float *p) {
  typename Vectors<W>::f32 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <int W>
OM_INLINE typename Vectors<W>::f64 load(const double *p) {
  typename Vectors<W>::f64 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <int W>
OM_INLINE typename Vectors<W>::f32 load(const c10::BFloat16 *p) {
  typename Vectors<W>::half_u16 h;
  std::memcpy(&h, p, sizeof h);
  return (typename Vectors<W>::f32)(__builtin_convertvector(h, typename Vectors<W>::u32) << 16);
}

template <int W>
OM_INLINE void store(float *p, const typename Vectors<W>::f32 &v) {
  std::memcpy(p, &v, sizeof v);
}

template <int W>
OM_INLINE void store(double *p, const typename Vectors<W>::f64 &v) {
  std::memcpy(p, &v, sizeof v);
}

// Rounds to nearest, ties to even, as ATen does; NaN stays NaN.
template <int W>
OM_INLINE void store(c10::BFloat16 *p, const typename Vectors<W>::f32 &v) {
  using U = typename Vectors<W>::u32;
  U bits = (U)v;
  U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  U quiet = (bits & 0u) + 0x7fc0u;
  typename Vectors<W>::half_u16 h =
      __builtin_convertvector(v == v ? rounded : quiet, typename Vectors<W>::half_u16);
  std::memcpy(p, &h, sizeof h);
}

// The nearest integers, ties to even, of lanes between -2^22 and 2^22; see exp_lanes.
template <int W>
OM_INLINE typename Vectors<W>::i32 nearest(const typename Vectors<W>::f32 &v) {
  return (typename Vectors<W>::i32)(v + 12582912.0f) - 0x4b400000;
}

// Rounds to nearest, ties to even. The lanes are in the range of the type.
template <int W>
OM_INLINE void store(int16_t *p, const typename Vectors<W>::f32 &v) {
  const auto h = __builtin_convertvector(nearest<W>(v), typename Vectors<W>::half_i16);
  std::memcpy(p, &h, sizeof h);
}

template <int W>
OM_INLINE void store(int8_t *p, const typename Vectors<W>::f32 &v) {
  const auto h = __builtin_convertvector(nearest<W>(v), typename Vectors<W>::half_i16);
  const auto b = __builtin_convertvector(h, typename Vectors<W>::quarter_i8);
  std::memcpy(p, &b, sizeof b);
}

// load_n reads n values and pads them with zeros; store_n writes n values.
template <int W, class T>
OM_INLINE typename Lanes<T, W>::V load_n(const T *p, int64_t n) {
  T tail[Lanes<T, W>::n] = {};
  std::memcpy(static_cast<void *>(tail), p, n * sizeof(T));
  return load<W>(tail);
}

template <int W, class T>
OM_INLINE void store_n(T *p, const typename Lanes<T, W>::V &v, int64_t n) {
  T tail[Lanes<T, W>::n];
  store<W>(tail, v);
  std::memcpy(static_cast<void *>(p), tail, n * sizeof(T));
}

// Whole selects the versions that read or write a full vector.
struct Whole {};

template <int W, class T>
OM_INLINE typename Lanes<T, W>::V load(const T *p, Whole) {
  return load<W>(p);
}

template <int W, class T>
OM_INLINE typename Lanes<T, W>::V load(const T *p, int64_t n) {
  return load_n<W>(p, n);
}

template <int W, class T>
OM_INLINE void store(T *p, const typename Lanes<T, W>::V &v, Whole) {
  store<W>(p, v);
}

template <int W, class T>
OM_INLINE void store(T *p, const typename Lanes<T, W>::V &v, int64_t n) {
  store_n<W>(p, v, n);
}

// for_lanes calls f(i, Whole) for each full vector of [0, n), with i its start, and f(i, left) for the remainder, if any.
// f must be an OM_LAMBDA; other lambdas are compiled for the baseline.
#define OM_LAMBDA __attribute__((always_inline))
template <class T, int W, class F>
OM_INLINE void for_lanes(int64_t n, const F &f) {
  constexpr int width = Lanes<T, W>::n;
  int64_t i = 0;
  for (; i + width <= n; i += width) f(i, Whole{});
  if (i < n) f(i, n - i);
}

// unroll calls f with the constants 0 … N-1, so that arrays indexed by them can be kept in registers.
template <class F, int... I>
OM_INLINE void unroll_over(const F &f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}

template <int N, class F>
OM_INLINE void unroll(const F &f) {
  unroll_over(f, std::make_integer_sequence<int, N>{});
}

// The sum of the two halves of a vector.
OM_INLINE Vectors<32>::f32 fold(const Vectors<64>::f32 &v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
OM_INLINE Vectors<16>::f32 fold(const Vectors<32>::f32 &v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
OM_INLINE Vectors<16>::f32 fold_to_four(const Vectors<64>::f32 &v) { return fold(fold(v)); }
OM_INLINE Vectors<16>::f32 fold_to_four(const Vectors<32>::f32 &v) { return fold(v); }
OM_INLINE Vectors<16>::f32 fold_to_four(const Vectors<16>::f32 &v) { return v; }

// The sum over the lanes, by adding halves until one lane is left.
template <int W>
OM_INLINE float sum_lanes(const typename Vectors<W>::f32 &v) {
  const Vectors<16>::f32 x = fold_to_four(v);
  return (x[0] + x[2]) + (x[1] + x[3]);
}

// The sums over the lanes of four vectors, with the same order of additions.
template <int W>
OM_INLINE Vectors<16>::f32 sum_lanes(const typename Vectors<W>::f32 &a, const typename Vectors<W>::f32 &b,
                                     const typename Vectors<W>::f32 &c, const typename Vectors<W>::f32 &d) {
  const Vectors<16>::f32 p = fold_to_four(a), q = fold_to_four(b), r = fold_to_four(c), s = fold_to_four(d);
  const Vectors<16>::f32 pq = __builtin_shufflevector(p, q, 0, 1, 4, 5) + __builtin_shufflevector(p, q, 2, 3, 6, 7);
  const Vectors<16>::f32 rs = __builtin_shufflevector(r, s, 0, 1, 4, 5) + __builtin_shufflevector(r, s, 2, 3, 6, 7);
  return __builtin_shufflevector(pq, rs, 0, 2, 4, 6) + __builtin_shufflevector(pq, rs, 1, 3, 5, 7);
}

// The sums over the lanes of a[r][o], as element 4 r + o of the result, with the same order of additions. Adding the halves of
// two vectors takes one shuffle: the halves that must move are paired, and the others stay in place.
OM_INLINE Vectors<64>::f32 sum_lanes(const Vectors<64>::f32 a[4][4]) {
  using V = Vectors<64>::f32;
  V eights[8], fours[4], twos[2];  // as many sums of each product are left
  unroll<8>([&](auto i) OM_LAMBDA {
    const V &p = a[i / 4][i % 4], &q = a[i / 4 + 2][i % 4];
    eights[i] = __builtin_shufflevector(p, q, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +
                __builtin_shufflevector(p, q, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
  });
  unroll<4>([&](auto i) OM_LAMBDA {
    const V &p = eights[i], &q = eights[i + 4];
    fours[i] = __builtin_shufflevector(p, q, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) +
               __builtin_shufflevector(p, q, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  });
  unroll<2>([&](auto i) OM_LAMBDA {
    const V &p = fours[i], &q = fours[i + 2];
    twos[i] = __builtin_shufflevector(p, q, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31) +
              __builtin_shufflevector(p, q, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29);
  });
  const V &p = twos[0], &q = twos[1];
  return __builtin_shufflevector(p, q, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31) +
         __builtin_shufflevector(p, q, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
}

template <int W>
OM_INLINE double sum_lanes(const typename Vectors<W>::f64 &v) {
  double sum = 0;
  for (int i = 0; i < W / 8; i++) sum += v[i];
  return sum;
}

// e^x with a relative error of about 1e-7: x = k ln 2 + r, the Taylor series of e^r to degree 7 (the remainder is below
// 6e-9 for |r| <= ln2/2), and the scaling by 2^k in two steps, so that overflow gives infinity and underflow zero.
template <int W>
OM_INLINE typename Vectors<W>::f32 exp_lanes(const typename Vectors<W>::f32 &v) {
  using F = typename Vectors<W>::f32;
  using I = typename Vectors<W>::i32;
  const F lo = F{} - 104.0f, hi = F{} + 89.0f;
  F x = v < lo ? lo : v;
  x = x > hi ? hi : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  F t = x * 1.44269504088896341f + magic;
  I n = (I)t - 0x4b400000;
  F k = t - magic;
  F r = x - k * 0.693359375f;  // ln 2 in two parts; the first has few bits, so that the product is exact
  r = r + k * 2.12194440054690583e-4f;
  F p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  I half = n >> 1;
  return p * (F)((half + 127) << 23) * (F)((n - half + 127) << 23);
}

template <int W>
OM_INLINE typename Vectors<W>::f64 exp_lanes(const typename Vectors<W>::f64 &x) {
  typename Vectors<W>::f64 y;
  for (int i = 0; i < W / 8; i++) y[i] = std::exp(x[i]);
  return y;
}

// Rounds the lanes to T, as a store and a load do.
template <class T, int W>
OM_INLINE typename Lanes<T, W>::V round_lanes(const typename Lanes<T, W>::V &v) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    T stored[Lanes<T, W>::n];
    store<W>(stored, v);
    return load<W>(stored);
  } else {
    return v;
  }
}

// The dot product of two rows of n values, by lanes.
template <int W, class T, class U>
OM_INLINE typename Lanes<T, W>::V dot_lanes(const T *a, const U *b, int64_t n) {
  typename Lanes<T, W>::V s = {};
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA { s += load<W>(a + i, c) * load<W>(b + i, c); });
  return s;
}

// Writes the sums over the lanes of acc[r][o] to y[r, o], whose rows are ldy apart.
template <int W, int R, int O>
OM_INLINE void store_sums(const typename Vectors<W>::f32 acc[R][O], float *y, int64_t ldy) {
  if constexpr (W == 64 && R > 1 && O == 4) {
    Vectors<64>::f32 all[4][4] = {};
    unroll<R>([&](auto r) OM_LAMBDA { unroll<4>([&](auto o) OM_LAMBDA { all[r][o] = acc[r][o]; }); });
    const Vectors<64>::f32 sums = sum_lanes(all);
    unroll<R>([&](auto r) OM_LAMBDA {
      constexpr int i = 4 * decltype(r)::value;
      store<16>(y + r * ldy, __builtin_shufflevector(sums, sums, i, i + 1, i + 2, i + 3));
    });
  } else {
    unroll<R>([&](auto r) OM_LAMBDA {
      if constexpr (O == 4)
        store<16>(y + r * ldy, sum_lanes<W>(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
      else
        y[r * ldy] = sum_lanes<W>(acc[r][0]);
    });
  }
}

// The step of a dot_tile that has nothing else to do.
struct NoStep {
  OM_LAMBDA bool operator()() const { return false; }
};

// The keep of a dot_tile that does not keep its weights.
struct NoKeep {
  template <class... A>
  OM_LAMBDA void operator()(const A &...) const {}
};

// The sixteen bfloat16 values at p in float32: the eight with even offsets, or the eight with odd ones. Widening them so takes fewer
// instructions than widening eight neighbours.
template <bool Odd>
OM_INLINE Vectors<32>::f32 load_every_other(const c10::BFloat16 *p) {
  Vectors<32>::u32 both;
  std::memcpy(&both, p, sizeof both);
  return (Vectors<32>::f32)(Odd ? both & 0xffff0000u : both << 16);
}

// y[r, o] = x[r] · w[o] for R rows of x, ldx apart, and O rows of w, O being 1 or 4; the rows of y are ldy apart. The order of
// additions of one product is the same for all R and O. The sums, R vectors of x and one of w are in registers: with R = 3 and O = 4
// that is all sixteen registers of AVX2. step is called before each full vector of columns, until it returns false; keep is called with
// each vector of w in float32: its row, its first column, its lanes, and how many of them are valid. With Split, w is in bfloat16, vectors have 32
// bytes, and in each sixteen columns of x the even ones come before the odd ones; the columns of keep are those of x.
template <class T, int W, int R, int O, bool Split = false, class Step = NoStep, class Keep = NoKeep>
OM_INLINE void dot_tile(const float *x, int64_t ldx, const T *const *w, int64_t k, float *y, int64_t ldy, Step step = {}, Keep keep = {}) {
  static_assert(!Split || (std::is_same_v<T, c10::BFloat16> && W == 32));
  using V = typename Vectors<W>::f32;
  V acc[R][O] = {};
  auto add_vectors = [&](int64_t i, auto c, const auto &weights) OM_LAMBDA {
    V xi[R];
    unroll<R>([&](auto r) OM_LAMBDA { xi[r] = load<W>(x + r * ldx + i, c); });
    unroll<O>([&](auto o) OM_LAMBDA {
      const V wi = weights(w[o]);
      keep(o, i, wi, c);
      unroll<R>([&](auto r) OM_LAMBDA { acc[r][o] += xi[r] * wi; });
    });
  };
  auto add = [&](int64_t i, auto c) OM_LAMBDA { add_vectors(i, c, [&](const T *row) OM_LAMBDA { return load<W>(row + i, c); }); };
  int64_t i = 0;
  if constexpr (Split) {
    auto add_sixteen = [&]() OM_LAMBDA {
      add_vectors(i, Whole{}, [&](const T *row) OM_LAMBDA { return load_every_other<false>(row + i); });
      add_vectors(i + 8, Whole{}, [&](const T *row) OM_LAMBDA { return load_every_other<true>(row + i); });
    };
    for (; i + 16 <= k && step(); i += 16) {
      step();
      add_sixteen();
    }
    for (; i + 16 <= k; i += 16) add_sixteen();
  }
  for (; i + W / 4 <= k && step(); i += W / 4) add(i, Whole{});
  for (; i + W / 4 <= k; i += W / 4) add(i, Whole{});
  if (i < k) add(i, k - i);
  store_sums<W, R, O>(acc, y, ldy);
}

}  // namespace om
