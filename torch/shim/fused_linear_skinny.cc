// Linear layers for a few rows, as in decoding: reading the weights takes most of the time, and ATen's matrix-vector
// product reads them at a third of the memory bandwidth. Every output is one dot product in a fixed order for any number
// of rows, so that a row does not depend on the others.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <optional>
#include <vector>

#include "fused.h"
#include "fused_amx.h"

namespace om {
namespace {

constexpr int kOut = 4;                    // outputs computed together
constexpr int64_t kGroup = kAmxOutputs;    // outputs of a task
constexpr int64_t kAmxRows = 16;           // rows that the matrix unit multiplies together
static_assert(OM_SKINNY_ROWS % kAmxRows == 0 && kGroup % kOut == 0);

// NextGroup and NextRows prefetch weights into the second cache while others are multiplied; without them, reading and computing alternate.
// A tile calls advance with its number of products, and step in each step of its loop.

// NextGroup prefetches n values of w during `products` products, a burst before each tile.
struct NextGroup {
  const char *const next;
  const int64_t lines, products;
  int64_t due = 0, done = 0;  // due is counted in 1 / products of a line
  template <class T>
  NextGroup(const T *w, int64_t n, int64_t products)
      : next(reinterpret_cast<const char *>(w)), lines(ceil_div(n * static_cast<int64_t>(sizeof(T)), 64)), products(products) {}
  OM_LAMBDA void advance(int64_t more) {
    for (due += more * lines; due >= products; due -= products) __builtin_prefetch(next + 64 * done++, 0, 2);
  }
  OM_LAMBDA bool step() { return false; }
};

// NextRows prefetches kOut rows of k weights, `apart` weights from one to the next, during kOut products with each of `rows` rows, at most one
// line in a step. From kManyRows on a tile has few lines to prefetch: it does so at its beginning, because an end of the prefetches in the middle
// of its loop takes longer.
template <class T>
struct NextRows {
  static constexpr int64_t kLine = 64 / sizeof(T), kManyRows = 48;
  const T *next;
  const int64_t apart, lines, products;
  int64_t computed = 0;
  uint64_t due = 0, done = 0;  // unsigned, so that the divisions of step are shifts
  NextRows(const T *w, int64_t k, int64_t apart, int64_t rows)
      : next(w), apart(apart), lines(kOut * ceil_div(k, kLine)), products(kOut * rows) {}
  OM_LAMBDA void advance(int64_t more) {
    due = lines * (computed += more) / products;
    if (products >= kOut * kManyRows)
      while (step()) {
      }
  }
  OM_LAMBDA bool step() {
    if (done == due) return false;
    __builtin_prefetch(next + done % kOut * apart + done / kOut * kLine, 0, 2);
    done++;
    return true;
  }
};

// Without AVX-512, outputs that are computed together are a quarter of a group apart; with AVX-512 they are neighbours.
template <int W>
constexpr bool kQuarters = W < 64;

// Whether weights of type T need an x with split columns, see dot_tile.
template <class T, int W>
constexpr bool kSplit = std::is_same_v<T, c10::BFloat16> && W == 32;

// Rows of x that are multiplied together. With kOut outputs the registers hold sixteen sums with AVX-512 and twelve otherwise.
template <int W>
constexpr int kTile = W == 64 ? 4 : 3;

// y[r, i · apart] for R rows of x [rows, k] from row r and the O rows w; the rows of y are kGroup apart. r moves to the next row. keep is
// that of dot_tile.
template <class T, int W, int R, int O, class Next, class Keep = NoKeep>
OM_INLINE void tile(const float *x, int64_t &r, const T *const *w, int64_t k, int64_t apart, float *y, Next &next, Keep keep = {}) {
  next.advance(R * O);
  auto step = [&]() OM_LAMBDA { return next.step(); };
  if constexpr (kQuarters<W> && O > 1) {
    float sums[R * O];
    dot_tile<T, W, R, O, kSplit<T, W>>(x + r * k, k, w, k, sums, O, step, keep);
    unroll<R>([&](auto i) OM_LAMBDA { unroll<O>([&](auto o) OM_LAMBDA { y[(r + i) * kGroup + o * apart] = sums[i * O + o]; }); });
  } else {
    dot_tile<T, W, R, O, kSplit<T, W>>(x + r * k, k, w, k, y + r * kGroup, kGroup, step, keep);
  }
  r += R;
}

// Whether the next tile has kTile rows if `left` rows are left: two tiles of two rows take less time than one of three and one of one.
template <int W>
constexpr bool full_tile(int64_t left) {
  return left >= kTile<W> && (kTile<W> == 4 || left != 4);
}

// y[r, i · apart], with rows kGroup apart, for the rows of x [rows, k] from row r and the rows w[i] of k weights, i < O.
template <class T, int W, int O, class Next>
OM_INLINE void outputs(const float *x, int64_t r, int64_t rows, const T *const *w, int64_t k, int64_t apart, float *y, Next &next) {
  while (full_tile<W>(rows - r)) tile<T, W, kTile<W>, O>(x, r, w, k, apart, y, next);
  while (rows - r >= 2) tile<T, W, 2, O>(x, r, w, k, apart, y, next);
  if (r < rows) tile<T, W, 1, O>(x, r, w, k, apart, y, next);
}

// outputs for more rows than one tile. The first tile converts the weights to float32, and keeps them for the others with
// their columns in the order of those of x.
template <class T, int W, class Next>
OM_INLINE void widened_outputs(const float *x, int64_t rows, const T *const *w, int64_t k, int64_t apart, float *y, Next &next) {
  thread_local std::vector<float> wide;
  wide.resize(kOut * k);
  float *const copy = wide.data();
  auto keep = [&](int64_t o, int64_t i, const auto &v, auto c) OM_LAMBDA { store<W>(copy + o * k + i, v, c); };
  int64_t r = 0;
  if (full_tile<W>(rows))
    tile<T, W, kTile<W>, kOut>(x, r, w, k, apart, y, next, keep);
  else
    tile<T, W, 2, kOut>(x, r, w, k, apart, y, next, keep);
  const float *const copies[kOut] = {copy, copy + k, copy + 2 * k, copy + 3 * k};
  outputs<float, W, kOut>(x, r, rows, copies, k, apart, y, next);
}

// y[r, o] for n outputs, at most kGroup. How fast weights are read depends on how they are read. With AVX-512 one row reads one stream, and
// several rows read four neighbouring rows of weights and prefetch the next group. Without it, four streams a quarter of the group apart are
// faster, and so are prefetches of what these streams read next, except that one tile in float32 reads without them as fast as memory allows. Weights
// in bfloat16 are converted once for several tiles.
template <class T, int W>
OM_INLINE void outputs_body(const float *x, int64_t rows, const T *w, int64_t k, int64_t n, float *y) {
  constexpr bool quarters = kQuarters<W>;
  NextGroup group(w + n * k, !quarters && rows > 1 ? n * k : 0, rows * n);
  const int64_t fours = quarters || rows > 1 ? n / kOut : 0, apart = quarters ? fours : 1, from = quarters ? 1 : kOut;
  for (int64_t i = 0; i < fours; i++) {
    const T *four[kOut];
    for (int64_t o = 0; o < kOut; o++) four[o] = w + (i * from + o * apart) * k;
    if constexpr (quarters) {
      const bool wide = std::is_same_v<T, float>, one_tile = rows <= kTile<W>;
      NextRows<T> next(w + (i + 1 < fours ? i + 1 : n) * k, wide && one_tile ? 0 : k, apart * k, rows);
      if (wide || one_tile)
        outputs<T, W, kOut>(x, 0, rows, four, k, apart, y + i, next);
      else
        widened_outputs<T, W>(x, rows, four, k, apart, y + i, next);
    } else {
      outputs<T, W, kOut>(x, 0, rows, four, k, 1, y + i * from, group);
    }
  }
  for (int64_t o = fours * kOut; o < n; o++) {
    const T *one = w + o * k;
    outputs<T, W, 1>(x, 0, rows, &one, k, 1, y + o, group);
  }
}

#define OM_SKINNY(T)                                                                                        \
  OM_MULTIVERSION(some_outputs, (const float *x, int64_t rows, const T *w, int64_t k, int64_t n, float *y), \
                  (x, rows, w, k, n, y), outputs_body<T, W>(x, rows, w, k, n, y))
OM_SKINNY(float)
OM_SKINNY(c10::BFloat16)

#if defined(__x86_64__)
#define OM_TARGET_BF16 target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")

// The same for bfloat16 operands, on processors with instructions that multiply and add pairs. m selects the values of a load.
template <int R, int O>
__attribute__((OM_TARGET_BF16, always_inline)) static inline void add_pairs(const c10::BFloat16 *x, const c10::BFloat16 *w, int64_t k,
                                                                            __mmask32 m, __m512 acc[R][O]) {
  __m512bh wi[O];
#pragma GCC unroll 4
  for (int o = 0; o < O; o++) wi[o] = (__m512bh)_mm512_maskz_loadu_epi16(m, w + o * k);
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
    const __m512bh xi = (__m512bh)_mm512_maskz_loadu_epi16(m, x + r * k);
#pragma GCC unroll 4
    for (int o = 0; o < O; o++) acc[r][o] = _mm512_dpbf16_ps(acc[r][o], xi, wi[o]);
  }
}

template <int R, int O>
__attribute__((OM_TARGET_BF16, always_inline)) static inline void pair_tile(const c10::BFloat16 *x,
                                                                            const c10::BFloat16 *w, int64_t k,
                                                                            float *y) {
  __m512 acc[R][O];
#pragma GCC unroll 16
  for (int j = 0; j < R * O; j++) acc[j / O][j % O] = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 32 <= k; i += 32) add_pairs<R, O>(x + i, w + i, k, ~__mmask32(0), acc);
  if (i < k) add_pairs<R, O>(x + i, w + i, k, (__mmask32(1) << (k - i)) - 1, acc);
  store_sums<64, R, O>(reinterpret_cast<const Vectors<64>::f32(*)[O]>(acc), y, kGroup);
}

template <int O>
__attribute__((OM_TARGET_BF16, always_inline)) static inline void pair_outputs(const c10::BFloat16 *x, int64_t rows,
                                                                               const c10::BFloat16 *w, int64_t k,
                                                                               float *y, NextGroup &next) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    next.advance(4 * O);
    pair_tile<4, O>(x + r * k, w, k, y + r * kGroup);
  }
  for (; r + 2 <= rows; r += 2) {
    next.advance(2 * O);
    pair_tile<2, O>(x + r * k, w, k, y + r * kGroup);
  }
  if (r < rows) {
    next.advance(O);
    pair_tile<1, O>(x + r * k, w, k, y + r * kGroup);
  }
}

__attribute__((OM_TARGET_BF16)) void some_outputs_pairs(const c10::BFloat16 *x, int64_t rows, const c10::BFloat16 *w,
                                                        int64_t k, int64_t n, float *y) {
  int64_t o = 0;
  if (rows == 1) {
    for (; o < n; o++) pair_tile<1, 1>(x, w + o * k, k, y + o);
    return;
  }
  NextGroup next(w + n * k, n * k, rows * n);
  for (; o + kOut <= n; o += kOut) pair_outputs<kOut>(x, rows, w + o * k, k, y + o, next);
  for (; o < n; o++) pair_outputs<1>(x, rows, w + o * k, k, y + o, next);
}
#else
void some_outputs_pairs(const c10::BFloat16 *, int64_t, const c10::BFloat16 *, int64_t, int64_t, float *) {}
#endif

// One of several weights that are multiplied with the same x.
struct Layer {
  at::Tensor w, bias, out;
  bool add;        // the products, rounded to the type of out, are added to out
  int64_t groups;  // of kGroup outputs; the last may be shorter
};

// x in the format of the kernels: float32, or bfloat16 for products of pairs, and packed for AMX. split is float32 with split columns, for
// weights in bfloat16 with AVX2.
struct Rows {
  at::Tensor x, packed, split;
  int64_t n, k;
  bool pairs;
};

void some_outputs(const Layer &l, const Rows &in, int64_t o, int64_t width, float *y) {
  const bool split = in.split.defined() && l.w.scalar_type() == at::kBFloat16;
  const void *x = (split ? in.split : in.x).const_data_ptr(), *w = l.w.const_data_ptr();
  if (in.pairs)
    some_outputs_pairs(static_cast<const at::BFloat16 *>(x), in.n, static_cast<const at::BFloat16 *>(w) + o * in.k, in.k,
                       width, y);
  else if (l.w.scalar_type() == at::kFloat)
    some_outputs(static_cast<const float *>(x), in.n, static_cast<const float *>(w) + o * in.k, in.k, width, y);
  else
    some_outputs(static_cast<const float *>(x), in.n, static_cast<const at::BFloat16 *>(w) + o * in.k, in.k, width, y);
}

// out[r, j] = y[r, j] + bias[j] for `width` outputs, at most kGroup; the rows of y are kGroup apart, those of out ldo. bias may
// be null. If add is true, the result, rounded to T, is added to out.
template <class T, int W>
OM_INLINE void put_outputs_body(const float *y, int64_t rows, int64_t width, const float *bias, bool add, T *out, int64_t ldo) {
  for (int64_t r = 0; r < rows; r++)
    for_lanes<T, W>(width, [&](int64_t j, auto c) OM_LAMBDA {
      auto v = load<W>(y + r * kGroup + j, c);
      if (bias != nullptr) v += load<W>(bias + j, c);
      if (add) v = round_lanes<T, W>(v) + load<W>(out + r * ldo + j, c);
      store<W>(out + r * ldo + j, v, c);
    });
}

#define OM_PUT(T)                                                                                                                       \
  OM_MULTIVERSION(put_outputs, (const float *y, int64_t rows, int64_t width, const float *bias, bool add, T *out, int64_t ldo), \
                  (y, rows, width, bias, add, out, ldo), put_outputs_body<T, W>(y, rows, width, bias, add, out, ldo))
OM_PUT(float)
OM_PUT(c10::BFloat16)

// Writes the outputs y of one group, which begins with output o, to the result.
void put_group(const Layer &l, const Rows &in, int64_t o, int64_t width, const float *y) {
  const int64_t outs = l.w.size(0);
  const float *bias = l.bias.defined() ? l.bias.const_data_ptr<float>() + o : nullptr;
  if (l.out.scalar_type() == at::kFloat)
    put_outputs(y, in.n, width, bias, l.add, l.out.data_ptr<float>() + o, outs);
  else
    put_outputs(y, in.n, width, bias, l.add, l.out.data_ptr<at::BFloat16>() + o, outs);
}

// The outputs of one group on the matrix unit.
void amx_group(const Layer &l, const Rows &in, int64_t first, float *y) {
  const at::BFloat16 *w = l.w.const_data_ptr<at::BFloat16>() + first * in.k;
  for (int64_t r = 0; r < in.n; r += kAmxRows) {
    alignas(64) float block[kGroup * kAmxRows];
    amx_block(in.packed.const_data_ptr<at::BFloat16>() + r * in.k, w, in.k, block);
    for (int64_t i = 0; i < std::min(kAmxRows, in.n - r); i++)
      for (int64_t o = 0; o < kGroup; o++) y[(r + i) * kGroup + o] = block[o * kAmxRows + i];
  }
}

// Computes the outputs of one group.
void do_group(const Layer &l, const Rows &in, int64_t group) {
  alignas(64) float y[OM_SKINNY_ROWS * kGroup];
  const int64_t first = group * kGroup, last = std::min(first + kGroup, l.w.size(0));
  if (in.packed.defined() && last - first == kGroup) {
    amx_group(l, in, first, y);
  } else {
    some_outputs(l, in, first, last - first, y);
  }
  put_group(l, in, first, last - first, y);
}

// Computes the groups [begin, end), counted over all layers.
void do_groups(const std::vector<Layer> &layers, const Rows &in, int64_t begin, int64_t end) {
  std::optional<AmxTiles> tiles;
  if (in.packed.defined()) tiles.emplace();
  int64_t start = 0;
  for (const Layer &l : layers) {
    for (int64_t g = std::max(begin, start); g < std::min(end, start + l.groups); g++) do_group(l, in, g - start);
    start += l.groups;
  }
}

OM_MULTIVERSION(widen, (const c10::BFloat16 *from, float *to, int64_t n), (from, to, n),
                for_lanes<float, W>(n, [&](int64_t i, auto c) OM_LAMBDA { store<W>(to + i, load<W>(from + i, c), c); }))

// Writes rows of k values with split columns.
template <class T>
OM_TARGET_AVX2 void split_rows(const T *from, float *to, int64_t rows, int64_t k) {
  constexpr int W = 32;
  for (int64_t r = 0; r < rows; r++, from += k, to += k) {
    int64_t i = 0;
    for (; i + 16 <= k; i += 16) {
      const auto a = load<W>(from + i), b = load<W>(from + i + 8);
      store<W>(to + i, __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14));
      store<W>(to + i + 8, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15));
    }
    for_lanes<float, W>(k - i, [&](int64_t j, auto c) OM_LAMBDA { store<W>(to + i + j, load<W>(from + i + j, c), c); });
  }
}

// x, of rows · k values in float32 or bfloat16, in float32 and contiguous, with split columns if split is true. Tensor::to would convert more than 32768 bfloat16 values on
// OpenMP's threads, which then wait for work on the CPUs that the pool's workers need.
at::Tensor widened(const at::Tensor &x, int64_t rows, int64_t k, bool split) {
  const at::Tensor from = x.contiguous();
  const bool wide = from.scalar_type() == at::kFloat;
  if (wide && !split) return from;
  const at::Tensor to = at::empty(from.sizes(), from.options().dtype(at::kFloat));
  const void *in = from.const_data_ptr();
  float *out = to.data_ptr<float>();
  parallel_for(0, rows, grain(k), [&](int64_t b, int64_t e) {
    if (wide)
      split_rows(static_cast<const float *>(in) + b * k, out + b * k, e - b, k);
    else if (split)
      split_rows(static_cast<const at::BFloat16 *>(in) + b * k, out + b * k, e - b, k);
    else
      widen(static_cast<const at::BFloat16 *>(in) + b * k, out + b * k, (e - b) * k);
  });
  return to;
}

Rows prepare(const at::Tensor &x, int64_t rows, int64_t k, const std::vector<at::Tensor> &ws) {
  const auto narrow = std::count_if(ws.begin(), ws.end(), [](const at::Tensor &w) { return w.scalar_type() == at::kBFloat16; });
  const bool all = narrow == static_cast<int64_t>(ws.size());
  Rows in{{}, {}, {}, rows, k, cpu_level() >= 3 && x.scalar_type() == at::kBFloat16 && all};
  if (cpu_level() == 1 && narrow > 0) in.split = widened(x, rows, k, true);
  if (!all || !in.split.defined()) in.x = in.pairs ? x.contiguous() : widened(x, rows, k, false);
  if (in.pairs && cpu_level() >= 4 && k % kAmxDepth == 0) {
    in.packed = at::empty({ceil_div(rows, kAmxRows) * kAmxRows * k}, x.options());
    for (int64_t r = 0; r < rows; r += kAmxRows)
      amx_pack(in.x.const_data_ptr<at::BFloat16>() + r * k, std::min(kAmxRows, rows - r), k,
               in.packed.data_ptr<at::BFloat16>() + r * k);
  }
  return in;
}

// ATen's product, in x's type. A GPU multiplies in the weight's type, but returns the float32 sums for a float32 x: rounding
// them to bfloat16 would make the logits of sampling differ from the logits of training (logits_of).
at::Tensor linear_aten(const at::Tensor &x, const at::Tensor &w, const at::Tensor &bias) {
  if (x.scalar_type() == at::kFloat && w.scalar_type() == at::kBFloat16) {
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    const at::Tensor rows = x.reshape({-1, x.size(-1)}).to(at::kBFloat16);
    // The CPU has no product with a result of another type than the operands.
    const at::Tensor y = x.is_cpu() ? at::mm(rows.to(at::kFloat), w.t().to(at::kFloat)) : at::mm(rows, w.t(), at::kFloat);
    return (bias.defined() ? y + bias : y).reshape(shape);
  }
  const at::Tensor b = bias.defined() ? bias.to(w.scalar_type()) : at::Tensor();
  return at::linear(x.to(w.scalar_type()), w, b).to(x.scalar_type());
}

// Checks the operands of layers of x and reports whether the kernels compute them.
bool check_skinny(const at::Tensor &x, const std::vector<at::Tensor> &ws, const std::vector<at::Tensor> &biases) {
  for (const auto &w : ws)
    TORCH_CHECK(!wants_grad(x, w), "linear: the kernels for few rows have no gradient; use them inside NoGrad");
  TORCH_CHECK(x.dim() >= 1, "linear: x has no dimension");
  const int64_t k = x.size(-1), rows = k == 0 ? 0 : x.numel() / k;
  TORCH_CHECK(rows <= OM_SKINNY_ROWS, "linear: x ", x.sizes(), " has more than ", OM_SKINNY_ROWS, " rows");
  bool kernel = has_kernel(x) && x.scalar_type() != at::kDouble;
  for (size_t i = 0; i < ws.size(); i++) {
    const at::Tensor &w = ws[i], &b = biases[i];
    TORCH_CHECK(w.dim() == 2 && w.size(1) == k, "linear: x ", x.sizes(), " needs a weight [M,", k, "], not ", w.sizes());
    same_device("linear", x, w, b);
    TORCH_CHECK(!b.defined() || (b.dim() == 1 && b.size(0) == w.size(0)), "linear: weight ", w.sizes(),
                " needs a bias [", w.size(0), "]");
    kernel = kernel && has_kernel(w) && w.scalar_type() != at::kDouble && w.is_contiguous();
  }
  return kernel;
}

// Computes outs[i], or adds to it, with the kernels.
void run_skinny(const at::Tensor &x, const std::vector<at::Tensor> &ws, const std::vector<at::Tensor> &biases,
                const std::vector<at::Tensor> &outs, bool add) {
  const int64_t k = x.size(-1), rows = k == 0 ? 0 : x.numel() / k;
  std::vector<Layer> layers;
  int64_t groups = 0;
  for (size_t i = 0; i < ws.size(); i++) {
    const at::Tensor b = biases[i].defined() ? biases[i].to(at::kFloat).contiguous() : at::Tensor();
    layers.push_back({ws[i], b, outs[i], add, ceil_div(ws[i].size(0), kGroup)});
    groups += layers.back().groups;
  }
  const Rows in = prepare(x, rows, k, ws);
  parallel_for(0, groups, grain(kGroup * k), [&](int64_t b, int64_t e) { do_groups(layers, in, b, e); });
}

// The results have the given type.
std::vector<at::Tensor> linear_skinny(const at::Tensor &x, const std::vector<at::Tensor> &ws,
                                      const std::vector<at::Tensor> &biases, at::ScalarType type) {
  const bool kernel = check_skinny(x, ws, biases);
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < ws.size(); i++) {
    auto shape = x.sizes().vec();
    shape.back() = ws[i].size(0);
    outs.push_back(kernel ? at::empty(shape, x.options().dtype(type)) : linear_aten(x, ws[i], biases[i]).to(type));
  }
  if (kernel) run_skinny(x, ws, biases, outs, false);
  return outs;
}

// Adds h·wᵀ to x on the CPU, rounded to x's type as the result of a linear layer is.
void add_skinny(const at::Tensor &x, const at::Tensor &h, const at::Tensor &w) {
  const bool kernel = check_skinny(h, {w}, {at::Tensor()});
  TORCH_CHECK(x.numel() == h.numel() / std::max<int64_t>(1, h.size(-1)) * w.size(0) && x.dim() == h.dim() && x.size(-1) == w.size(0),
              "linear: ", h.sizes(), " times ", w.sizes(), " cannot be added to ", x.sizes());
  same_device("linear", x, h);
  at::NoGradGuard no_grad;
  if (kernel && x.is_contiguous() && x.scalar_type() == h.scalar_type())
    run_skinny(h, {w}, {at::Tensor()}, {x}, true);
  else
    x.add_(linear_aten(h, w, at::Tensor()));
}

}  // namespace

at::Tensor logits_skinny(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor &rows : hidden.split(OM_SKINNY_ROWS)) parts.push_back(linear_skinny(rows, {weight}, {bias}, at::kFloat)[0]);
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace om

const char *om_linear_add_(om_tensor x, om_tensor h, om_tensor w) {
  OM_TRY {
    at::NoGradGuard no_grad;
    const at::Tensor &to = om::ref(x);
    if (to.is_cpu())
      om::add_skinny(to, om::ref(h), om::ref(w));
    else
      om::ref(x).addmm_(om::ref(h), om::ref(w).t());
  }
  OM_END
}

const char *om_linear_skinny(om_tensor x, om_tensor *ws, om_tensor *biases, int64_t n, om_tensor *outs) {
  OM_TRY {
    std::vector<at::Tensor> w(n), b(n);
    for (int64_t i = 0; i < n; i++) {
      w[i] = om::ref(ws[i]);
      if (biases != nullptr) b[i] = om::opt(biases[i]);
    }
    const auto r = om::linear_skinny(om::ref(x), w, b, om::ref(x).scalar_type());
    for (int64_t i = 0; i < n; i++) outs[i] = om::wrap(r[i]);
  }
  OM_END
}
