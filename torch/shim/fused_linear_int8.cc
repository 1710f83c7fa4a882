// Linear layers with int8 weights, for decoding: a copy of the weights for reading, of half the size of bfloat16. Row o of the weight has
// one scale, and so has row r of x, which is rounded to 16 bits,
//
//   s[o] = max_i |w[o,i]| / 127,    q[o,i] = round(w[o,i] / s[o])
//   t[r] = max_i |x[r,i]| / 32767,  p[r,i] = round(x[r,i] / t[r])
//   y[r,o] = s[o] t[r] Σ_i p[r,i] q[o,i] + bias[o]
//
// The sums of kExact products are exact integers. Converting the weights to integers of 16 bits takes a third of the instructions of
// converting them to bfloat16, which would be slower than reading them. A row does not depend on the others.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <limits>
#include <vector>

#include "fused.h"

namespace om {
namespace int8 {
namespace {

constexpr int kOut = 4;           // outputs computed together
constexpr int64_t kGroup = 16;    // outputs of a task
constexpr int64_t kRows = 64;     // rows computed together
constexpr int64_t kAhead = 8192;  // weights between those that are read and those that are prefetched
constexpr int64_t kDirect = 4;    // more rows share a copy of their weights as integers of 16 bits
constexpr int64_t kExact = 2048;  // products that four lanes of 32 bits add without overflow

// Rounds the rows [begin, end) of w [., k] to integers of at most `most`, with a scale for each row. A row with a value that is not finite
// gets the scale NaN.
template <class T, class Q, int W>
OM_INLINE void quantize_body(const T *w, int64_t begin, int64_t end, int64_t k, float most, Q *q, float *scales) {
  using V = typename Vectors<W>::f32;
  for (int64_t r = begin; r < end; r++) {
    V sizes = {}, bad = {};  // bad becomes NaN with a value that is not finite
    for_lanes<T, W>(k, [&](int64_t i, auto c) OM_LAMBDA {
      const V v = load<W>(w + r * k + i, c), size = v < 0.0f ? -v : v;
      sizes = size > sizes ? size : sizes;
      bad += v - v;
    });
    float largest = 0;
    for (int i = 0; i < W / 4; i++) largest = sizes[i] > largest ? sizes[i] : largest;
    scales[r] = largest / most + sum_lanes<W>(bad);
    const float inverse = largest > std::numeric_limits<float>::min() * most ? most / largest : 0.0f;
    for_lanes<T, W>(k, [&](int64_t i, auto c) OM_LAMBDA {
      V v = load<W>(w + r * k + i, c) * inverse;
      v = v < most ? v : V{} + most;
      store<W>(q + r * k + i, v > -most ? v : V{} - most, c);
    });
  }
}

#define OM_QUANTIZE(T, Q)                                                                                              \
  OM_MULTIVERSION(quantize, (const T *w, int64_t begin, int64_t end, int64_t k, float most, Q *q, float *scales), \
                  (w, begin, end, k, most, q, scales), quantize_body<T, Q, W>(w, begin, end, k, most, q, scales))
OM_QUANTIZE(float, int8_t)
OM_QUANTIZE(c10::BFloat16, int8_t)
OM_QUANTIZE(float, int16_t)
OM_QUANTIZE(c10::BFloat16, int16_t)

// quantized rounds the rows of t [N,K], whose type is float32 or bfloat16, to integers of type Q.
template <class Q>
void quantized(const at::Tensor &t, at::Tensor &values, at::Tensor &scales) {
  const at::Tensor w = t.contiguous();
  const int64_t n = w.size(0), k = w.size(1);
  values = at::empty(w.sizes(), w.options().dtype(c10::CppTypeToScalarType<Q>::value));
  scales = at::empty({n}, w.options().dtype(at::kFloat));
  Q *q = values.data_ptr<Q>();
  float *s = scales.data_ptr<float>();
  parallel_for(0, n, grain(k), [&](int64_t b, int64_t e) {
    constexpr float most = std::numeric_limits<Q>::max();
    if (w.scalar_type() == at::kFloat)
      quantize(w.const_data_ptr<float>(), b, e, k, most, q, s);
    else
      quantize(w.const_data_ptr<at::BFloat16>(), b, e, k, most, q, s);
  });
}

// load_ints reads a vector of W/2 integers, or n and zeros.
template <int W>
OM_INLINE typename Vectors<W>::i16 load_ints(const int16_t *p) {
  typename Vectors<W>::i16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// GCC 12 widens the vectors of AVX-512 and AVX2 in several steps; the processors have an instruction for it.
template <int W>
OM_INLINE typename Vectors<W>::i16 load_ints(const int8_t *p) {
#if defined(__x86_64__)
  if constexpr (W > 16) {
    typename Vectors<W>::i16 wide;
    if constexpr (W == 64)
      asm("vpmovsxbw %1, %0" : "=v"(wide) : "m"(*reinterpret_cast<const int8_t(*)[32]>(p)));
    else
      asm("vpmovsxbw %1, %0" : "=x"(wide) : "m"(*reinterpret_cast<const int8_t(*)[16]>(p)));
    return wide;
  }
#endif
  typename Vectors<W>::half_i8 v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, typename Vectors<W>::i16);
}

template <int W, class T>
OM_INLINE typename Vectors<W>::i16 load_ints(const T *p, Whole) {
  return load_ints<W>(p);
}

template <int W, class T>
OM_INLINE typename Vectors<W>::i16 load_ints(const T *p, int64_t n) {
  T tail[W / 2] = {};
  std::memcpy(tail, p, n * sizeof(T));
  return load_ints<W>(tail);
}

// add_pairs adds the sums of two neighbouring products to acc: with one instruction if Dot, which needs the level 3.
template <int W, bool Dot>
OM_INLINE void add_pairs(typename Vectors<W>::i32 &acc, const typename Vectors<W>::i16 &a, const typename Vectors<W>::i16 &b) {
#if defined(__x86_64__)
  if constexpr (Dot) {
    asm("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else {
    typename Vectors<W>::i32 sums;
    if constexpr (W == 64)
      asm("vpmaddwd %2, %1, %0" : "=v"(sums) : "v"(a), "v"(b));
    else if constexpr (W == 32)
      asm("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(a), "x"(b));
    else
      sums = (typename Vectors<W>::i32)_mm_madd_epi16((__m128i)a, (__m128i)b);
    acc += sums;
  }
#else
  for (int i = 0; i < W / 4; i++) acc[i] += int32_t(a[2 * i]) * b[2 * i] + int32_t(a[2 * i + 1]) * b[2 * i + 1];
#endif
}

// y[r, o] = p[r] · q[o] for R rows of p and O rows of q, 1 or 4, all of length k; the rows of y are kGroup apart.
template <int W, bool Dot, int R, int O, class Q>
OM_INLINE void int_tile(const int16_t *p, const Q *q, int64_t k, float *y) {
  using F = typename Vectors<W>::f32;
  for (int64_t begin = 0; begin < k; begin += kExact) {
    typename Vectors<W>::i32 acc[R][O] = {};
    auto add = [&](int64_t i, auto c) OM_LAMBDA {
      typename Vectors<W>::i16 qi[O];
      unroll<O>([&](auto o) OM_LAMBDA { qi[o] = load_ints<W>(q + o * k + i, c); });
      unroll<R>([&](auto r) OM_LAMBDA {
        const auto pi = load_ints<W>(p + r * k + i, c);
        unroll<O>([&](auto o) OM_LAMBDA { add_pairs<W, Dot>(acc[r][o], pi, qi[o]); });
      });
    };
    const int64_t end = std::min(begin + kExact, k);
    int64_t i = begin;
    if constexpr (O == 1)
      for (; i + W <= end; i += W) {
        __builtin_prefetch(q + i + kAhead, 0, 3);
        add(i, Whole{});
        add(i + W / 2, Whole{});
      }
    for (; i + W / 2 <= end; i += W / 2) add(i, Whole{});
    if (i < end) add(i, end - i);
    F sums[R][O];
    unroll<R>([&](auto r) OM_LAMBDA { unroll<O>([&](auto o) OM_LAMBDA { sums[r][o] = __builtin_convertvector(acc[r][o], F); }); });
    if (begin == 0) {
      store_sums<W, R, O>(sums, y, kGroup);
    } else {
      float more[R * O];
      store_sums<W, R, O>(sums, more, O);
      for (int j = 0; j < R * O; j++) y[j / O * kGroup + j % O] += more[j];
    }
  }
}

// y[r, o], with rows kGroup apart, for O rows of q. Four rows of each need the 32 registers of AVX-512.
template <int W, bool Dot, int O, class Q>
OM_INLINE void int_outputs(const int16_t *p, int64_t rows, const Q *q, int64_t k, float *y) {
  constexpr int step = W == 64 ? 4 : 2;
  int64_t r = 0;
  for (; r + step <= rows; r += step) int_tile<W, Dot, step, O>(p + r * k, q, k, y + r * kGroup);
  for (; r + 2 <= rows; r += 2) int_tile<W, Dot, 2, O>(p + r * k, q, k, y + r * kGroup);
  if (r < rows) int_tile<W, Dot, 1, O>(p + r * k, q, k, y + r * kGroup);
}

// y[r, o] for n outputs, at most kGroup; copy has kOut · k elements. A few rows read the weights of one output after the other: the
// processor follows one stream better than several.
template <int W, bool Dot>
OM_INLINE void some_outputs_body(const int16_t *p, int64_t rows, const int8_t *q, int64_t k, int64_t n, float *y, int16_t *copy) {
  int64_t o = 0;
  if (rows > kDirect)
    for (; o + kOut <= n; o += kOut) {
      const int8_t *from = q + o * k;
      int64_t i = 0;
      for (; i + W / 2 <= kOut * k; i += W / 2) {
        __builtin_prefetch(from + i + kAhead, 0, 3);
        const auto v = load_ints<W>(from + i);
        std::memcpy(copy + i, &v, sizeof v);
      }
      for (; i < kOut * k; i++) copy[i] = from[i];
      int_outputs<W, Dot, kOut>(p, rows, copy, k, y + o);
    }
  for (; o < n; o++) int_outputs<W, Dot, 1>(p, rows, q + o * k, k, y + o);
}

OM_MULTIVERSION(some_outputs, (const int16_t *p, int64_t rows, const int8_t *q, int64_t k, int64_t n, float *y, int16_t *copy),
                (p, rows, q, k, n, y, copy), some_outputs_body<W, false>(p, rows, q, k, n, y, copy))

OM_TARGET_AVX512 void some_outputs_dot(const int16_t *p, int64_t rows, const int8_t *q, int64_t k, int64_t n, float *y, int16_t *copy) {
  some_outputs_body<64, true>(p, rows, q, k, n, y, copy);
}

// out[r, j] = row_scale[r] scale[j] y[r, j] + bias[j] for n outputs, at most kGroup; the rows of y are kGroup apart, those of out ldo. bias
// may be null.
template <class T, int W>
OM_INLINE void put_body(const float *y, const float *row_scale, int64_t rows, int64_t n, const float *scale, const float *bias, T *out,
                        int64_t ldo) {
  for (int64_t r = 0; r < rows; r++)
    for_lanes<T, W>(n, [&](int64_t j, auto c) OM_LAMBDA {
      auto v = load<W>(y + r * kGroup + j, c) * (load<W>(scale + j, c) * row_scale[r]);
      if (bias != nullptr) v += load<W>(bias + j, c);
      store<W>(out + r * ldo + j, v, c);
    });
}

#define OM_PUT_INT8(T)                                                                                                                 \
  OM_MULTIVERSION(put,                                                                                                                 \
                  (const float *y, const float *row_scale, int64_t rows, int64_t n, const float *scale, const float *bias, T *out, int64_t ldo), \
                  (y, row_scale, rows, n, scale, bias, out, ldo), put_body<T, W>(y, row_scale, rows, n, scale, bias, out, ldo))
OM_PUT_INT8(float)
OM_PUT_INT8(c10::BFloat16)

// One of several layers of the same x. All are on the CPU.
struct Layer {
  at::Tensor values, scales, bias, out;  // out is [rows, M]
  int64_t groups;                        // of kGroup outputs; the last may be shorter
};

// x as integers.
struct Rows {
  at::Tensor values, scales;
  int64_t n, k;
};

// Computes group `group` of a layer. copy is memory of some_outputs.
void do_group(const Layer &l, const Rows &x, int64_t group, int16_t *copy) {
  const int64_t outs = l.values.size(0), at = group * kGroup, n = std::min(kGroup, outs - at);
  const int8_t *q = l.values.const_data_ptr<int8_t>() + at * x.k;
  const float *scale = l.scales.const_data_ptr<float>() + at, *bias = l.bias.defined() ? l.bias.const_data_ptr<float>() + at : nullptr;
  alignas(64) float y[kRows * kGroup];
  for (int64_t first = 0; first < x.n; first += kRows) {
    const int64_t rows = std::min(kRows, x.n - first);
    const int16_t *p = x.values.const_data_ptr<int16_t>() + first * x.k;
    (cpu_level() >= 3 ? some_outputs_dot : some_outputs)(p, rows, q, x.k, n, y, copy);
    const float *row_scale = x.scales.const_data_ptr<float>() + first;
    if (l.out.scalar_type() == at::kFloat)
      put(y, row_scale, rows, n, scale, bias, l.out.data_ptr<float>() + first * outs + at, outs);
    else
      put(y, row_scale, rows, n, scale, bias, l.out.data_ptr<at::BFloat16>() + first * outs + at, outs);
  }
}

// Computes the groups [begin, end), counted over all layers.
void do_groups(const std::vector<Layer> &layers, const Rows &x, int64_t begin, int64_t end) {
  std::vector<int16_t> copy(x.n > kDirect ? kOut * x.k : 0);
  int64_t start = 0;
  for (const Layer &l : layers) {
    for (int64_t g = std::max(begin, start); g < std::min(end, start + l.groups); g++) do_group(l, x, g - start, copy.data());
    start += l.groups;
  }
}

std::vector<at::Tensor> linear(const at::Tensor &x, const std::vector<at::Tensor> &values, const std::vector<at::Tensor> &scales,
                               const std::vector<at::Tensor> &biases) {
  TORCH_CHECK(!wants_grad(x), "linear: int8 weights have no gradient; use them inside NoGrad");
  at::NoGradGuard no_grad;
  const auto type = x.scalar_type();
  TORCH_CHECK(x.dim() >= 1 && (type == at::kFloat || type == at::kBFloat16), "linear: int8 weights need x [...,K] in float32 or bfloat16, not ",
              type, " ", x.sizes());
  const int64_t k = x.size(-1);
  TORCH_CHECK(k > 0, "linear: x ", x.sizes(), " has no columns");
  auto shape = x.sizes().vec();
  std::vector<Layer> layers;
  std::vector<at::Tensor> outs;
  int64_t groups = 0;
  for (size_t i = 0; i < values.size(); i++) {
    const at::Tensor &q = values[i], &s = scales[i], &b = biases[i];
    TORCH_CHECK(q.scalar_type() == at::kChar && q.dim() == 2 && q.size(1) == k && q.is_contiguous(), "linear: x ", x.sizes(),
                " needs int8 values [M,", k, "], not ", q.scalar_type(), " ", q.sizes());
    const int64_t m = q.size(0);
    TORCH_CHECK(s.scalar_type() == at::kFloat && s.dim() == 1 && s.size(0) == m && s.is_contiguous(), "linear: values ", q.sizes(),
                " need float32 scales [", m, "], not ", s.scalar_type(), " ", s.sizes());
    TORCH_CHECK(!b.defined() || (b.dim() == 1 && b.size(0) == m), "linear: values ", q.sizes(), " need a bias [", m, "]");
    same_device("linear", x, q, s, b);
    const at::Tensor bias = b.defined() ? b.to(at::kFloat).contiguous() : at::Tensor();
    if (!has_kernel(x)) {
      at::Tensor y = at::linear(x.to(at::kFloat), q.to(at::kFloat)) * s;
      outs.push_back((bias.defined() ? y + bias : y).to(type));
      continue;
    }
    shape.back() = m;
    outs.push_back(at::empty(shape, x.options()));
    layers.push_back({q, s, bias, outs.back(), ceil_div(m, kGroup)});
    groups += layers.back().groups;
  }
  if (layers.empty()) return outs;
  Rows in{{}, {}, x.numel() / k, k};
  quantized<int16_t>(x.reshape({in.n, k}), in.values, in.scales);
  parallel_for(0, groups, grain(kGroup * k), [&](int64_t b, int64_t e) { do_groups(layers, in, b, e); });
  return outs;
}

}  // namespace
}  // namespace int8
}  // namespace om

const char *om_quantize_int8(om_tensor w, om_tensor *values, om_tensor *scales) {
  OM_TRY {
    at::NoGradGuard no_grad;
    at::Tensor q, s;
    const at::Tensor &weight = om::ref(w);
    const auto type = weight.scalar_type();
    TORCH_CHECK(weight.dim() == 2 && weight.is_cpu() && (type == at::kFloat || type == at::kBFloat16),
                "quantize: the weight must be [M,K], float32 or bfloat16 and on the CPU, not ", type, " ", weight.sizes(), " on ",
                weight.device());
    om::int8::quantized<int8_t>(weight, q, s);
    *values = om::wrap(q);
    *scales = om::wrap(s);
  }
  OM_END
}

const char *om_linear_int8(om_tensor x, om_tensor *values, om_tensor *scales, om_tensor *biases, int64_t n, om_tensor *outs) {
  OM_TRY {
    std::vector<at::Tensor> q(n), s(n), b(n);
    for (int64_t i = 0; i < n; i++) {
      q[i] = om::ref(values[i]);
      s[i] = om::ref(scales[i]);
      if (biases != nullptr) b[i] = om::opt(biases[i]);
    }
    const auto r = om::int8::linear(om::ref(x), q, s, b);
    for (int64_t i = 0; i < n; i++) outs[i] = om::wrap(r[i]);
  }
  OM_END
}
