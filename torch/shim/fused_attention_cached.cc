// Attention of new tokens against a paged key-value cache, for generation. No gradient.
//
// A few new tokens of a sequence (decoding) are computed one by one: the context is split into parts of fixed length, each
// (token, part) is one task with its own maximum and sums (online softmax, arXiv:1805.02867), and the parts are combined
// in order. So a token's result depends on its own context only, not on the batch or the number of threads.
// Longer chunks (prefill) are split into blocks of queries that pass over the context in tiles, see fused_attention_tile.h;
// their results do not depend on the batch or the number of threads either.
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "fused_attention_tile.h"

namespace om {
namespace {

constexpr int64_t kPart = 128;
constexpr int64_t kMatrixUnit = 128;  // from this many new tokens ATen's bfloat16 attention is faster, see below

struct Shape {
  int64_t heads, kv_heads, dim, block_size;
  float scale;
  int64_t group() const { return heads / kv_heads; }
};

// The offsets in the caches of the n keys of a part, in the order in which they are read: one key of each quarter of the part in turn, then the
// remaining keys, at most three. Memory is read faster in four streams than in one. The last offset is repeated up to a multiple of four.
struct Places {
  int64_t at[kPart], n = 0;
};

// for_heads calls f(kv_head, head, G) for G query heads from `head` on that share a key head; G is a constant, at most four. f must be an OM_LAMBDA.
template <class F>
OM_INLINE void for_heads(const Shape &s, const F &f) {
  for (int64_t kh = 0; kh < s.kv_heads; kh++)
    for (int64_t h = kh * s.group(), end = h + s.group(); h < end; h += 4) switch (std::min<int64_t>(end - h, 4)) {
        case 4:
          f(kh, h, std::integral_constant<int, 4>{});
          break;
        case 3:
          f(kh, h, std::integral_constant<int, 3>{});
          break;
        case 2:
          f(kh, h, std::integral_constant<int, 2>{});
          break;
        default:
          f(kh, h, std::integral_constant<int, 1>{});
      }
}

// Adds the products of pairs of bfloat16 values to sum.
OM_INLINE void add_pairs(Vectors<64>::f32 &sum, const Vectors<64>::u32 &a, const Vectors<64>::u32 &b) {
#if defined(__x86_64__)
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));  // the function that this is inlined into has the instruction
#endif
}

OM_INLINE Vectors<64>::u32 load_pairs(const c10::BFloat16 *p, Whole) {
  Vectors<64>::u32 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

OM_INLINE Vectors<64>::u32 load_pairs(const c10::BFloat16 *p, int64_t n) {
  c10::BFloat16 tail[32] = {};
  std::memcpy(static_cast<void *>(tail), p, n * sizeof *p);
  return load_pairs(tail, Whole{});
}

// y[g, i] = q[g] · keys[i] for G heads and four keys of bfloat16 pairs; the rows of y are kPart apart.
template <int G>
OM_INLINE void pair_scores(const c10::BFloat16 *q, const c10::BFloat16 *const *keys, int64_t dim, float *y) {
  using V = Vectors<64>::f32;
  V acc[G][4] = {};
  auto step = [&](int64_t j, auto c) OM_LAMBDA {
    Vectors<64>::u32 ki[4];
    unroll<4>([&](auto i) OM_LAMBDA { ki[i] = load_pairs(keys[i] + j, c); });
    unroll<G>([&](auto g) OM_LAMBDA {
      const Vectors<64>::u32 qg = load_pairs(q + g * dim + j, c);
      unroll<4>([&](auto i) OM_LAMBDA { add_pairs(acc[g][i], qg, ki[i]); });
    });
  };
  int64_t j = 0;
  for (; j + 32 <= dim; j += 32) step(j, Whole{});
  if (j < dim) step(j, dim - j);
  store_sums<64, G, 4>(acc, y, kPart);
}

// score [heads, kPart] = q [heads, dim] · keys. Up to three scores after the n of a row are written too, and have no meaning. Q is bfloat16 if
// the processor multiplies bfloat16 pairs, and float otherwise.
template <class C, int W, class Q>
OM_INLINE void score_part(const Shape &s, const Q *q, const C *kc, const Places &p, float *score) {
  for (int64_t i = 0; i < p.n; i += 4)
    for_heads(s, [&](int64_t kh, int64_t h, auto g) OM_LAMBDA {
      const C *keys[4];
      for (int j = 0; j < 4; j++) keys[j] = kc + p.at[i + j] + kh * s.dim;
      if constexpr (std::is_same_v<Q, float>)
        dot_tile<C, W, g, 4>(q + h * s.dim, s.dim, keys, s.dim, score + h * kPart + i, kPart);
      else
        pair_scores<g>(q + h * s.dim, keys, s.dim, score + h * kPart + i);
    });
}

// acc[g, j …] += Σ weight[g, r] v[r, j …] for G heads, R rows of values and D vectors from column j on, of c values each; the rows of weight are
// kPart apart, those of acc dim.
template <class C, int W, int G, int R, int D, class Count>
OM_INLINE void mix_columns(const C *const *v, const float *weight, int64_t j, int64_t dim, Count c, float *acc) {
  constexpr int width = W / 4;
  typename Vectors<W>::f32 sum[G][D];
  unroll<G>([&](auto g) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { sum[g][d] = load<W>(acc + g * dim + j + d * width, c); }); });
  unroll<R>([&](auto r) OM_LAMBDA {
    typename Vectors<W>::f32 row[D];
    unroll<D>([&](auto d) OM_LAMBDA { row[d] = load<W>(v[r] + j + d * width, c); });
    unroll<G>([&](auto g) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { sum[g][d] += row[d] * weight[g * kPart + r]; }); });
  });
  unroll<G>([&](auto g) OM_LAMBDA { unroll<D>([&](auto d) OM_LAMBDA { store<W>(acc + g * dim + j + d * width, sum[g][d], c); }); });
}

// Adds the values of R places from number i on, times their weights [heads, kPart], to acc [heads, dim].
template <class C, int W, int R>
OM_INLINE void mix_rows(const Shape &s, const C *vc, const Places &p, int64_t i, const float *weight, float *acc) {
  constexpr int D = W == 64 ? 4 : 2, width = W / 4;
  for_heads(s, [&](int64_t kh, int64_t h, auto g) OM_LAMBDA {
    const C *v[R];
    for (int r = 0; r < R; r++) v[r] = vc + p.at[i + r] + kh * s.dim;
    const float *w = weight + h * kPart + i;
    float *to = acc + h * s.dim;
    int64_t j = 0;
    for (; j + D * width <= s.dim; j += D * width) mix_columns<C, W, g, R, D>(v, w, j, s.dim, Whole{}, to);
    for (; j + width <= s.dim; j += width) mix_columns<C, W, g, R, 1>(v, w, j, s.dim, Whole{}, to);
    if (j < s.dim) mix_columns<C, W, g, R, 1>(v, w, j, s.dim, s.dim - j, to);
  });
}

// The largest of n values times scale.
template <int W>
OM_INLINE float largest(const float *s, int64_t n, float scale) {
  using V = typename Vectors<W>::f32;
  constexpr int width = W / 4;
  V tops = V{} - INFINITY;
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const V x = load<W>(s + i) * scale;
    tops = x > tops ? x : tops;
  }
  float top = -INFINITY;
  if (i > 0)
    for (int j = 0; j < width; j++) top = std::max(top, tops[j]);
  for (; i < n; i++) top = std::max(top, s[i] * scale);
  return top;
}

// One token's attention over a part of its context. q is [heads, dim]; m and l [heads] and acc [heads, dim] receive the largest score, the sum of
// exp(score - m) and the sum of exp(score - m) v.
template <class C, int W, class Q>
OM_INLINE void attend_part(const Shape &s, const Q *q, const C *kc, const C *vc, const Places &p, float *m, float *l, float *acc) {
  TileMemory memory(TileMemory::size<float>(s.heads * kPart));
  float *score = memory.take<float>(s.heads * kPart);
  score_part<C, W>(s, q, kc, p, score);
  for (int64_t h = 0; h < s.heads; h++) {
    float *row = score + h * kPart;
    const float top = largest<W>(row, p.n, s.scale);
    typename Vectors<W>::f32 sum = {};
    for_lanes<float, W>(p.n, [&](int64_t i, auto c) OM_LAMBDA {
      store<W>(row + i, exp_lanes<W>(load<W>(row + i, c) * s.scale - top), c);
      sum += load<W>(row + i, c);
    });
    m[h] = top;
    l[h] = sum_lanes<W>(sum);
  }
  std::fill(acc, acc + s.heads * s.dim, 0.0f);
  int64_t i = 0;
  for (; i + 4 <= p.n; i += 4) mix_rows<C, W, 4>(s, vc, p, i, score, acc);
  for (; i < p.n; i++) mix_rows<C, W, 1>(s, vc, p, i, score, acc);
}

#define OM_ATTEND(C)                                                                                                          \
  OM_MULTIVERSION(attend,                                                                                                     \
                  (const Shape &s, const float *q, const C *kc, const C *vc, const Places &p, float *m, float *l, float *acc), \
                  (s, q, kc, vc, p, m, l, acc), attend_part<C, W>(s, q, kc, vc, p, m, l, acc))
OM_ATTEND(float)
OM_ATTEND(c10::BFloat16)

// The same with products of bfloat16 pairs, for cpu_level() >= 3.
OM_TARGET_AVX512 void attend_pairs(const Shape &s, const c10::BFloat16 *q, const c10::BFloat16 *kc, const c10::BFloat16 *vc,
                                   const Places &p, float *m, float *l, float *acc) {
  attend_part<c10::BFloat16, 64>(s, q, kc, vc, p, m, l, acc);
}

struct Sequences {
  int64_t n;
  const int64_t *q_offsets, *lens, *block_offsets;
  const int32_t *blocks;
};

// One task: a part of the context of a new token, which is number `of` of those computed one by one.
struct Piece {
  int64_t of, token, begin, end;
  const int32_t *blocks;
};

Places places_of(const Shape &s, const Piece &p) {
  int64_t in_order[kPart];
  Places to;
  for (int64_t i = p.begin; i < p.end;) {
    const int64_t block = i / s.block_size, end = std::min(p.end, (block + 1) * s.block_size);
    for (int64_t at = p.blocks[block] * s.block_size + i % s.block_size; i < end; i++, at++) in_order[to.n++] = at * s.kv_heads * s.dim;
  }
  const int64_t quarter = to.n / 4;
  for (int64_t i = 0; i < 4 * quarter; i++) to.at[i] = in_order[i % 4 * quarter + i / 4];
  for (int64_t i = 4 * quarter; i < ceil_div(to.n, 4) * 4; i++) to.at[i] = in_order[std::min(i, to.n - 1)];
  return to;
}

// Combines the parts of a token, which are consecutive in memory, in order.
template <class T, int W>
OM_INLINE void combine_body(const Shape &s, int64_t parts, const float *m, const float *l, float *acc, T *out) {
  for (int64_t h = 0; h < s.heads; h++) {
    float top = -INFINITY, sum = 0;
    for (int64_t p = 0; p < parts; p++) top = std::max(top, m[p * s.heads + h]);
    for (int64_t p = 0; p < parts; p++) {
      const float w = std::exp(m[p * s.heads + h] - top);
      float *first = acc + h * s.dim;
      const float *a = acc + (p * s.heads + h) * s.dim;
      sum += w * l[p * s.heads + h];
      for_lanes<float, W>(s.dim, [&](int64_t j, auto c) OM_LAMBDA {
        auto v = load<W>(a + j, c) * w;
        if (p > 0) v += load<W>(first + j, c);
        store<W>(first + j, v, c);
      });
    }
    for_lanes<float, W>(s.dim, [&](int64_t j, auto c) OM_LAMBDA {
      store<W>(out + h * s.dim + j, load<W>(acc + h * s.dim + j, c) / sum, c);
    });
  }
}

#define OM_COMBINE(T)                                                                                              \
  OM_MULTIVERSION(combine, (const Shape &s, int64_t parts, const float *m, const float *l, float *acc, T *out), \
                  (s, parts, m, l, acc, out), combine_body<T, W>(s, parts, m, l, acc, out))
OM_COMBINE(float)
OM_COMBINE(c10::BFloat16)

// Computes the sequences listed in `which` token by token and writes their rows of out [N,Hq,Dh].
template <class T, class C>
void one_query(const Shape &s, const T *q, const C *kc, const C *vc, const Sequences &seqs, const std::vector<int64_t> &which, T *out) {
  std::vector<Piece> pieces;
  std::vector<int64_t> first;  // the first task of each token; then the number of tasks
  for (const int64_t i : which) {
    for (int64_t t = seqs.q_offsets[i]; t < seqs.q_offsets[i + 1]; t++) {
      const int64_t context = seqs.lens[i] - (seqs.q_offsets[i + 1] - 1 - t), of = static_cast<int64_t>(first.size());
      first.push_back(static_cast<int64_t>(pieces.size()));
      for (int64_t b = 0; b < context; b += kPart)
        pieces.push_back({of, t, b, std::min(b + kPart, context), seqs.blocks + seqs.block_offsets[i]});
    }
  }
  first.push_back(static_cast<int64_t>(pieces.size()));
  const int64_t width = s.heads * s.dim, n = static_cast<int64_t>(pieces.size());
  std::vector<std::atomic<int32_t>> unfinished(first.size() - 1);
  for (size_t t = 0; t < unfinished.size(); t++) unfinished[t].store(static_cast<int32_t>(first[t + 1] - first[t]));
  // Of each part the maxima and sums of its heads, and the sums of values.
  const std::unique_ptr<float[]> parts(new float[n * (2 * s.heads + width)]);
  float *m = parts.get(), *l = m + n * s.heads, *acc = l + n * s.heads;
  constexpr bool both_bf16 = std::is_same_v<T, at::BFloat16> && std::is_same_v<C, at::BFloat16>;
  const bool pairs = both_bf16 && cpu_level() >= 3;
  parallel_for(0, n, grain(4 * width), [&](int64_t b, int64_t e) {
    std::vector<float> scaled(width);
    Shape unscaled = s;
    unscaled.scale = 1;
    for (int64_t i = b; i < e; i++) {
      const Piece &p = pieces[i];
      const T *from = q + p.token * width;
      float *mi = m + i * s.heads, *li = l + i * s.heads, *ai = acc + i * width;
      const Places places = places_of(s, p);
      if constexpr (both_bf16)
        if (pairs) attend_pairs(s, from, kc, vc, places, mi, li, ai);
      if (!pairs) {
        for (int64_t j = 0; j < width; j++) scaled[j] = float(from[j]) * s.scale;
        attend(unscaled, scaled.data(), kc, vc, places, mi, li, ai);
      }
      if (unfinished[p.of].fetch_sub(1) > 1) continue;
      const int64_t f = first[p.of];
      combine(s, first[p.of + 1] - f, m + f * s.heads, l + f * s.heads, acc + f * width, out + p.token * width);
    }
  });
}

// One task: some queries of one sequence, for the query heads of one key head.
struct Block {
  int64_t token, n, first, kv_head;
  const int32_t *blocks;
};

// Computes the sequences listed in `which` block by block and writes their rows of out.
template <class T, class C>
void many_queries(const Shape &s, const T *q, const C *kc, const C *vc, const Sequences &seqs, const std::vector<int64_t> &which, T *out) {
  const int64_t step = queries_per_tile(s.group()), width = s.heads * s.dim;
  std::vector<Block> work;
  for (const int64_t i : which) {
    const int64_t begin = seqs.q_offsets[i], end = seqs.q_offsets[i + 1];
    for (int64_t t = begin; t < end; t += step)
      for (int64_t h = 0; h < s.kv_heads; h++)
        work.push_back({t, std::min(step, end - t), seqs.lens[i] - (end - t), h, seqs.blocks + seqs.block_offsets[i]});
  }
  std::stable_sort(work.begin(), work.end(),
                   [](const Block &a, const Block &b) { return a.n * (a.first + a.n) > b.n * (b.first + b.n); });
  share_out(static_cast<int64_t>(work.size()), [&](int64_t i) {
    const Block &b = work[i];
    const int64_t at = b.token * width + b.kv_head * s.group() * s.dim, kv = b.kv_head * s.dim;
    const Queries<T> queries{q + at, b.first, b.n, s.group(), width, s.dim};
    const Context<C> context{kc + kv, vc + kv, b.blocks, s.block_size, s.kv_heads * s.dim, s.dim};
    AttendBlock<T, C, float>::run(queries, context, s.scale, out + at, nullptr, 0);
  });
}

// Attention of one sequence's chunk with ATen's operations, on any device and in any type: it gathers the pages and masks
// later tokens.
at::Tensor chunk(const Shape &s, const at::Tensor &q, const at::Tensor &kc, const at::Tensor &vc, int64_t len,
                 const int32_t *blocks, double scale) {
  const int64_t n = q.size(0), used = ceil_div(len, s.block_size);
  const at::Tensor index = at::from_blob(const_cast<int32_t *>(blocks), {used}, at::kInt).to(q.device());
  auto context = [&](const at::Tensor &cache) {
    at::Tensor t = cache.index_select(0, index).view({used * s.block_size, s.kv_heads, s.dim}).slice(0, 0, len);
    t = t.to(q.scalar_type());
    if (s.group() > 1)
      t = t.unsqueeze(2).expand({len, s.kv_heads, s.group(), s.dim}).reshape({len, s.heads, s.dim});
    return t.transpose(0, 1).unsqueeze(0);
  };
  std::optional<at::Tensor> mask;
  if (n != len && n > 1)
    mask = at::full({n, len}, -INFINITY, q.options()).triu(len - n + 1);
  return at::scaled_dot_product_attention(q.transpose(0, 1).unsqueeze(0), context(kc), context(vc), mask, 0.0, n == len,
                                          scale)
      .squeeze(0)
      .transpose(0, 1);
}

void check(const at::Tensor &q, const at::Tensor &kc, const at::Tensor &vc, const Sequences &seqs) {
  TORCH_CHECK(q.dim() == 3 && kc.dim() == 4 && kc.sizes() == vc.sizes() && kc.size(3) == q.size(2) && kc.size(2) > 0 &&
                  q.size(1) % kc.size(2) == 0,
              "attention: q must be [N,Hq,Dh] and the caches [blocks,blockSize,Hkv,Dh] with Hq a multiple of Hkv, not ",
              q.sizes(), ", ", kc.sizes(), ", ", vc.sizes());
  TORCH_CHECK(kc.is_contiguous() && vc.is_contiguous() && kc.scalar_type() == vc.scalar_type(),
              "attention: the caches must be contiguous and of one type");
  same_device("attention", q, kc, vc);
  TORCH_CHECK(seqs.q_offsets[0] == 0 && seqs.q_offsets[seqs.n] == q.size(0), "attention: q offsets must go from 0 to N = ",
              q.size(0), ", not from ", seqs.q_offsets[0], " to ", seqs.q_offsets[seqs.n]);
  const int64_t size = kc.size(1);
  for (int64_t i = 0; i < seqs.n; i++) {
    const int64_t n = seqs.q_offsets[i + 1] - seqs.q_offsets[i], len = seqs.lens[i];
    const int64_t have = seqs.block_offsets[i + 1] - seqs.block_offsets[i];
    TORCH_CHECK(n >= 0 && n <= len, "attention: sequence ", i, " has ", n, " new tokens in a context of ", len);
    TORCH_CHECK(ceil_div(len, size) <= have, "attention: sequence ", i, " has ", have, " blocks of ", size,
                " for a context of ", len);
    for (int64_t b = 0; b < ceil_div(len, size); b++) {
      const int32_t block = seqs.blocks[seqs.block_offsets[i] + b];
      TORCH_CHECK(block >= 0 && block < kc.size(0), "attention: sequence ", i, " names block ", block, " of ",
                  kc.size(0));
    }
  }
}

at::Tensor attention_cached(const at::Tensor &q, const at::Tensor &kc, const at::Tensor &vc, const Sequences &seqs,
                            double scale) {
  TORCH_CHECK(!wants_grad(q, kc, vc), "attention: there is no gradient through a cache; use it inside NoGrad");
  at::NoGradGuard no_grad;
  check(q, kc, vc, seqs);
  const Shape s{q.size(1), kc.size(2), q.size(2), kc.size(1), static_cast<float>(scale)};
  const bool kernel = has_kernel(q) && has_kernel(kc) && kc.scalar_type() != at::kDouble;
  auto attend_whole = [&](int64_t i, const at::Tensor &out) {
    const int64_t b = seqs.q_offsets[i], e = seqs.q_offsets[i + 1];
    if (b < e)
      out.slice(0, b, e).copy_(
          chunk(s, q.slice(0, b, e), kc, vc, seqs.lens[i], seqs.blocks + seqs.block_offsets[i], scale));
  };
  if (!kernel) {
    const at::Tensor out = at::empty(q.sizes(), q.options());
    for (int64_t i = 0; i < seqs.n; i++) attend_whole(i, out);
    return out;
  }
  // ATen multiplies bfloat16 on the matrix unit, which outweighs its copies if the chunk is long.
  const bool matrix_unit = cpu_level() >= 4 && q.scalar_type() == at::kBFloat16 && kc.scalar_type() == at::kBFloat16;
  std::vector<int64_t> few, many, whole;
  for (int64_t i = 0; i < seqs.n; i++) {
    const int64_t n = seqs.q_offsets[i + 1] - seqs.q_offsets[i];
    if (n > 0) (n <= OM_ATTENTION_ONE_QUERY ? few : n >= kMatrixUnit && matrix_unit ? whole : many).push_back(i);
  }
  const bool one_type = q.scalar_type() == kc.scalar_type();
  const at::Tensor queries = (one_type ? q : q.to(at::kFloat)).contiguous(), out = at::empty(q.sizes(), queries.options());
  auto run = [&](auto *to, const auto *keys, const auto *values) {
    const auto *from = static_cast<decltype(to)>(queries.data_ptr());
    if (!few.empty()) one_query(s, from, keys, values, seqs, few, to);
    if (!many.empty()) many_queries(s, from, keys, values, seqs, many, to);
  };
  if (kc.scalar_type() == at::kFloat)
    run(out.data_ptr<float>(), kc.const_data_ptr<float>(), vc.const_data_ptr<float>());
  else if (one_type)
    run(out.data_ptr<at::BFloat16>(), kc.const_data_ptr<at::BFloat16>(), vc.const_data_ptr<at::BFloat16>());
  else
    run(out.data_ptr<float>(), kc.const_data_ptr<at::BFloat16>(), vc.const_data_ptr<at::BFloat16>());
  for (const int64_t i : whole) attend_whole(i, out);
  return out.to(q.scalar_type());
}

void check_write(const at::Tensor &cache, const at::Tensor &values, const int64_t *slots, int64_t n) {
  TORCH_CHECK(cache.dim() == 4 && cache.is_contiguous() && values.dim() == 3 && values.size(0) == n &&
                  values.size(1) == cache.size(2) && values.size(2) == cache.size(3),
              "cache write: ", n, " slots need values [N,Hkv,Dh] for a cache [blocks,blockSize,Hkv,Dh], not ",
              values.sizes(), " for ", cache.sizes());
  same_device("cache write", cache, values);
  const int64_t places = cache.size(0) * cache.size(1);
  for (int64_t i = 0; i < n; i++)
    TORCH_CHECK(slots[i] >= 0 && slots[i] < places, "cache write: slot ", slots[i], " of token ", i, " is not in a cache of ",
                places, " places");
}

void cache_write(const at::Tensor &cache, const at::Tensor &values, const int64_t *slots, int64_t n) {
  check_write(cache, values, slots, n);
  const int64_t places = cache.size(0) * cache.size(1);
  const at::Tensor source = values.to(cache.options()).contiguous();
  if (cache.device().is_cpu() && kernels_on()) {
    const int64_t bytes = cache.size(2) * cache.size(3) * static_cast<int64_t>(cache.element_size());
    const char *from = static_cast<const char *>(source.const_data_ptr());
    char *to = static_cast<char *>(cache.data_ptr());
    for (int64_t i = 0; i < n; i++) std::memcpy(to + slots[i] * bytes, from + i * bytes, bytes);
    return;
  }
  const at::Tensor index = at::from_blob(const_cast<int64_t *>(slots), {n}, at::kLong).to(cache.device());
  cache.view({places, cache.size(2), cache.size(3)}).index_copy_(0, index, source);
}

// Rotates q and k, writes k and v to the caches and returns q.
at::Tensor rope_write(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const at::Tensor &cos, const at::Tensor &sin,
                      const at::Tensor &kc, const at::Tensor &vc, const int64_t *slots, int64_t n) {
  auto alike = [&](const at::Tensor &t) { return t.scalar_type() == q.scalar_type(); };
  if (!has_kernel(q) || !kc.device().is_cpu() || !alike(k) || !alike(v) || !alike(kc) || !alike(vc)) {
    cache_write(kc, rope(k, cos, sin), slots, n);
    cache_write(vc, v, slots, n);
    return rope(q, cos, sin);
  }
  check_rope(q, cos, sin);
  check_rope(k, cos, sin);
  check_write(kc, k, slots, n);
  check_write(vc, v, slots, n);
  TORCH_CHECK(q.size(0) == n, "rope: ", n, " slots for queries ", q.sizes());
  TORCH_CHECK(kc.sizes() == vc.sizes() && kc.scalar_type() == vc.scalar_type(), "rope: the caches of keys ", kc.sizes(), " and values ", vc.sizes(), " differ");
  const auto type = compute_type(q.scalar_type());
  const at::Tensor c = cos.to(type).contiguous(), sn = sin.to(type).contiguous(), values = v.contiguous(), out = at::empty(q.sizes(), q.options());
  const int64_t heads = q.size(1), kv_heads = kc.size(2), dim = q.size(2), size = kc.element_size();
  const int64_t bytes = kv_heads * dim * size;
  char *to = static_cast<char *>(out.data_ptr()), *kp = static_cast<char *>(kc.data_ptr()), *vp = static_cast<char *>(vc.data_ptr());
  const char *from = static_cast<const char *>(values.const_data_ptr());
  const RopeTokens rotate_q(q, c, sn), rotate_k(k, c, sn);
  parallel_for(0, n, grain((heads + 2 * kv_heads) * dim), [&](int64_t b, int64_t e) {
    for (int64_t t = b; t < e; t++) {
      rotate_q(t, to + t * heads * dim * size);
      rotate_k(t, kp + slots[t] * bytes);
      std::memcpy(vp + slots[t] * bytes, from + t * bytes, bytes);
    }
  });
  return out;
}

}  // namespace
}  // namespace om

const char *om_rope_write(om_tensor q, om_tensor k, om_tensor v, om_tensor cos, om_tensor sin, om_tensor kc, om_tensor vc,
                          const int64_t *slots, int64_t n, om_tensor *out) {
  OM_TRY {
    at::NoGradGuard no_grad;
    *out = om::wrap(om::rope_write(om::ref(q), om::ref(k), om::ref(v), om::ref(cos), om::ref(sin), om::ref(kc), om::ref(vc), slots, n));
  }
  OM_END
}

const char *om_cache_write(om_tensor kc, om_tensor vc, om_tensor k, om_tensor v, const int64_t *slots, int64_t n) {
  OM_TRY {
    at::NoGradGuard no_grad;
    om::cache_write(om::ref(kc), om::ref(k), slots, n);
    om::cache_write(om::ref(vc), om::ref(v), slots, n);
  }
  OM_END
}

const char *om_attention_cached(om_tensor q, om_tensor kc, om_tensor vc, int64_t n_seqs, const int64_t *q_offsets,
                                const int64_t *lens, const int64_t *block_offsets, const int32_t *blocks, double scale,
                                om_tensor *out) {
  OM_TRY {
    *out = om::wrap(om::attention_cached(om::ref(q), om::ref(kc), om::ref(vc),
                                         {n_seqs, q_offsets, lens, block_offsets, blocks}, scale));
  }
  OM_END
}
