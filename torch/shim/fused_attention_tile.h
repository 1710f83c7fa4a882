// Causal attention over tiles: flash attention (arXiv:2307.08691) that reads keys and values in place. The lanes of a vector
// are queries, so that maxima and sums are computed lane by lane. A tile has the places 64 i … 64 i + 63 of the context, and
// tiles are processed in order, so a query's result depends on its own context only: not on other queries, sequences or the
// number of threads, and not on how the context was split into chunks.
#pragma once

#include "fused_tile.h"

namespace om {

constexpr int64_t kTileKeys = 64, kTileRows = 64;

// The keys and values of one sequence for one key head. Place i of the context is at place(i). If blocks is null, the places
// are consecutive in memory, except that `gap` places lie between the first `split` places and the rest.
template <class C>
struct Context {
  const C *k, *v;
  const int32_t *blocks;
  int64_t block_size, stride, dim, split = 0, gap = 0;
  int64_t place(int64_t i) const {
    if (blocks != nullptr) return (blocks[i / block_size] * block_size + i % block_size) * stride;
    return (i < split ? i : i + gap) * stride;
  }
};

// Consecutive queries of one sequence, with the `group` heads that share a key head. Row r is query r / group, head
// r % group, at r / group · stride + r % group · dim. `first` is the place of the first query in the context.
template <class T>
struct Queries {
  const T *q;
  int64_t first, n, group, stride, dim;
  int64_t rows() const { return n * group; }
  int64_t at(int64_t r) const { return r / group * stride + r % group * dim; }
};

// The maximum of rows in a block, which consists of whole queries.
inline int64_t queries_per_tile(int64_t group) { return std::max<int64_t>(1, kTileRows / group); }
inline int64_t rows_per_tile(int64_t group) { return ceil_div(std::max(kTileRows, group), 16) * 16; }

// y [dim, ld] = scale · xᵀ, padded with zeros up to `lanes` rows of x.
template <class A, class T>
OM_INLINE void turn_rows(const Queries<T> &x, A scale, int64_t lanes, A *y, int64_t ld) {
  for (int64_t r = 0; r < x.rows(); r++) {
    const T *row = x.q + x.at(r);
    for (int64_t j = 0; j < x.dim; j++) y[j * ld + r] = A(row[j]) * scale;
  }
  for (int64_t r = x.rows(); r < lanes; r++)
    for (int64_t j = 0; j < x.dim; j++) y[j * ld + r] = 0;
}

// y [n, ld] = scale · n rows of x that begin at at(i).
template <int W, class T, class A, class At>
OM_INLINE void copy_rows(const T *x, const At &at, int64_t n, int64_t dim, A scale, A *y, int64_t ld) {
  for (int64_t i = 0; i < n; i++) {
    const T *row = x + at(i);
    for_lanes<T, W>(dim, [&](int64_t j, auto c) OM_LAMBDA { store<W>(y + i * ld + j, load<W>(row + j, c) * scale, c); });
  }
}

// Row r attends to the places before limit[r].
template <class A, class T>
OM_INLINE void set_limits(const Queries<T> &x, int64_t lanes, A *limit) {
  for (int64_t r = 0; r < lanes; r++) limit[r] = A(x.first + std::min(r, x.rows() - 1) / x.group + 1);
}

// The tiles of a block of rows.
template <class A>
struct AttendTiles {
  A *q, *o, *s, *k, *v, *m, *l, *limit;
  static int64_t bytes(int64_t rows, int64_t dim) {
    using M = TileMemory;
    return 2 * M::size<A>(rows * dim) + M::size<A>(rows * kTileKeys) + 2 * M::size<A>(dim * kTileKeys) + 3 * M::size<A>(rows);
  }
  AttendTiles(int64_t rows, int64_t dim) {
    TileMemory memory(bytes(rows, dim));
    q = memory.take<A>(rows * dim);
    o = memory.take<A>(rows * dim);
    s = memory.take<A>(rows * kTileKeys);
    k = memory.take<A>(dim * kTileKeys);
    v = memory.take<A>(dim * kTileKeys);
    m = memory.take<A>(rows);
    l = memory.take<A>(rows);
    limit = memory.take<A>(rows);
  }
};

// Adds n places from `begin`, with keys and values in t, to the rows' sums. `masked` is true if some row does not attend to
// all of them.
template <class A, int W>
OM_INLINE void attend_tile(const AttendTiles<A> &t, int64_t ld, int64_t lanes, int64_t dim, int64_t begin, int64_t n,
                           bool masked) {
  using V = typename Lanes<A, W>::V;
  constexpr int width = Lanes<A, W>::n;
  multiply<A, W>(t.k, dim, 1, n, dim, t.q, ld, lanes, t.s, ld, false);
  for (int64_t r = 0; r < lanes; r += width) {
    const V limit = load<W>(t.limit + r), before = load<W>(t.m + r);
    V top = before;
    for (int64_t i = 0; i < n; i++) {
      V s = load<W>(t.s + i * ld + r);
      if (masked) s = A(begin + i) < limit ? s : V{} - A(INFINITY);
      top = s > top ? s : top;
    }
    V sum = {};
    for (int64_t i = 0; i < n; i++) {
      V p = exp_negative<W>(load<W>(t.s + i * ld + r) - top);
      if (masked) p = A(begin + i) < limit ? p : V{};
      store<W>(t.s + i * ld + r, p);
      sum += p;
    }
    const V keep = exp_negative<W>(before - top);
    store<W>(t.m + r, top);
    store<W>(t.l + r, load<W>(t.l + r) * keep + sum);
    for (int64_t j = 0; j < dim; j++) store<W>(t.o + j * ld + r, load<W>(t.o + j * ld + r) * keep);
  }
  multiply<A, W>(t.v, 1, dim, dim, n, t.s, ld, lanes, t.o, ld, true);
}

// Writes the rows' attention to out, which has the layout of the queries, and the logarithm of the sum of exp(score) to
// lse [rows], unless null, with stride `lse_stride` between queries and 1 between heads.
template <class T, class C, class A, int W>
OM_INLINE void attend_rows(const Queries<T> &x, const Context<C> &context, A scale, T *out, A *lse, int64_t lse_stride) {
  const int64_t dim = x.dim, rows = x.rows(), ld = rows_per_tile(x.group), end = x.first + x.n;
  const int64_t lanes = ceil_div(rows, Lanes<A, W>::n) * Lanes<A, W>::n;
  const AttendTiles<A> t(ld, dim);
  turn_rows<A>(x, scale, lanes, t.q, ld);
  set_limits(x, lanes, t.limit);
  std::fill(t.o, t.o + dim * ld, A(0));
  std::fill(t.l, t.l + lanes, A(0));
  std::fill(t.m, t.m + lanes, A(-1e30));
  auto place = [&](int64_t i) OM_LAMBDA { return context.place(i); };
  for (int64_t b = 0; b < end; b += kTileKeys) {
    const int64_t n = std::min(kTileKeys, end - b);
    auto at = [&](int64_t i) OM_LAMBDA { return place(b + i); };
    copy_rows<W>(context.k, at, n, dim, A(1), t.k, dim);
    copy_rows<W>(context.v, at, n, dim, A(1), t.v, dim);
    attend_tile<A, W>(t, ld, lanes, dim, b, n, b + n > x.first + 1);
  }
  for (int64_t r = 0; r < rows; r++) {
    T *o = out + x.at(r);
    for (int64_t j = 0; j < dim; j++) o[j] = T(t.o[j * ld + r] / t.l[r]);
    if (lse != nullptr) lse[r / x.group * lse_stride + r % x.group] = t.m[r] + std::log(t.l[r]);
  }
}

template <class T, class C, class A>
struct AttendBlock {
  OM_MULTIVERSION(run, (const Queries<T> &x, const Context<C> &context, A scale, T *out, A *lse, int64_t lse_stride),
                  (x, context, scale, out, lse, lse_stride),
                  (attend_rows<T, C, A, W>(x, context, scale, out, lse, lse_stride)))
};

}  // namespace om
