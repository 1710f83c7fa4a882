// Causal attention inside each of several packed sequences, in tiles (fused_attention_tile.h). A sequence may continue another
// one, its parent: its tokens then attend to the parent's tokens too, which are in the pack once. The backward recomputes the
// scores instead of storing them, as in algorithm 2 of arXiv:2307.08691. GPUs use ATen's operations for sequences of any lengths.
#include "fused_attention_tile.h"
#include "gpu.h"

namespace om {
namespace {

// The n tokens of a sequence from token `begin` on. They follow the `before` tokens of the parent, which begin at token `parent`.
struct Sequence {
  int64_t begin, n, parent = 0, before = 0;
  // work is proportional to the number of products of n queries from query `first` on.
  int64_t work(int64_t first, int64_t n) const { return n * (2 * (before + first) + n); }
};

// A sequence and the sequences that continue it.
using Family = std::vector<Sequence>;

// One family and key head. The pointers are to the key head and to its query heads, of token 0.
template <class T, class A>
struct Backward {
  const Family &family;
  int64_t group, stride, kv_stride, dim;
  const T *q, *k, *v, *out, *dout;
  const A *lse;
  int64_t lse_stride;
  T *dq, *dk, *dv;
  A scale;
};

// The tiles of the backward: for a block of rows, and for all keys and values that a sequence attends to.
template <class A>
struct BackwardTiles {
  A *qt, *dot, *q, *dout, *dq, *p, *ds, *lse, *delta, *limit;
  A *k, *v, *dk, *dv;
  BackwardTiles(int64_t rows, int64_t keys, int64_t dim) {
    using M = TileMemory;
    M memory(5 * M::size<A>(rows * dim) + 2 * M::size<A>(rows * kTileKeys) + 3 * M::size<A>(rows) +
             4 * M::size<A>(keys * dim));
    for (A **t : {&qt, &dot, &q, &dout, &dq}) *t = memory.take<A>(rows * dim);
    for (A **t : {&p, &ds}) *t = memory.take<A>(rows * kTileKeys);
    for (A **t : {&lse, &delta, &limit}) *t = memory.take<A>(rows);
    for (A **t : {&k, &v, &dk, &dv}) *t = memory.take<A>(keys * dim);
  }
};

// With P = exp(S - lse), delta = Σ dO·O and S of the scaled queries: dV += Pᵀ dO, dS = P (dO Vᵀ - delta), dK += dSᵀ Q,
// dQ += dS K, for the rows of t and the n places from `begin` on. dp is the padded dimension.
template <class A, int W>
OM_INLINE void backward_tile(const BackwardTiles<A> &t, int64_t ld, int64_t rows, int64_t lanes, int64_t dim, int64_t dp,
                             int64_t begin, int64_t n, bool masked) {
  using V = typename Lanes<A, W>::V;
  const A *k = t.k + begin * dp, *v = t.v + begin * dp;
  multiply<A, W>(k, dp, 1, n, dim, t.qt, ld, lanes, t.p, ld, false);
  multiply<A, W>(v, dp, 1, n, dim, t.dot, ld, lanes, t.ds, ld, false);
  for (int64_t i = 0; i < n; i++)
    for (int64_t r = 0; r < lanes; r += Lanes<A, W>::n) {
      A *pi = t.p + i * ld + r, *di = t.ds + i * ld + r;
      V p = exp_negative<W>(load<W>(pi) - load<W>(t.lse + r));
      if (masked) p = A(begin + i) < load<W>(t.limit + r) ? p : V{};
      store<W>(pi, p);
      store<W>(di, p * (load<W>(di) - load<W>(t.delta + r)));
    }
  multiply<A, W>(t.p, ld, 1, n, rows, t.dout, dp, dp, t.dv + begin * dp, dp, true);
  multiply<A, W>(t.ds, ld, 1, n, rows, t.q, dp, dp, t.dk + begin * dp, dp, true);
  multiply<A, W>(t.ds, 1, ld, rows, n, k, dp, dp, t.dq, dp, true);
}

// Adds the gradients of the keys and values of a sequence and its parent to t, and writes the gradient of the queries.
template <class T, class A, int W>
OM_INLINE void backward_queries(const Backward<T, A> &b, const Sequence &s, const BackwardTiles<A> &t, int64_t ld, int64_t dp) {
  const int64_t width = Lanes<A, W>::n, step = queries_per_tile(b.group);
  for (int64_t begin = 0; begin < s.n; begin += step) {
    const int64_t first = s.before + begin, token = s.begin + begin, offset = token * b.stride;
    const Queries<T> x{b.q + offset, first, std::min(step, s.n - begin), b.group, b.stride, b.dim};
    const int64_t rows = x.rows(), lanes = ceil_div(rows, width) * width, end = first + x.n;
    const Queries<T> g{b.dout + offset, first, x.n, b.group, b.stride, b.dim};
    auto row = [&](int64_t r) OM_LAMBDA { return x.at(r); };
    turn_rows<A>(x, b.scale, lanes, t.qt, ld);
    turn_rows<A>(g, A(1), lanes, t.dot, ld);
    copy_rows<W>(x.q, row, rows, b.dim, b.scale, t.q, dp);
    copy_rows<W>(g.q, row, rows, b.dim, A(1), t.dout, dp);
    std::fill(t.dq, t.dq + rows * dp, A(0));
    set_limits(x, lanes, t.limit);
    for (int64_t r = 0; r < lanes; r++) {
      t.lse[r] = r < rows ? b.lse[(token + r / x.group) * b.lse_stride + r % x.group] : A(0);
      t.delta[r] = r < rows ? sum_lanes<W>(dot_lanes<W>(b.out + offset + x.at(r), g.q + x.at(r), b.dim)) : A(0);
    }
    for (int64_t k = 0; k < end; k += kTileKeys) {
      const int64_t n = std::min(kTileKeys, end - k);
      backward_tile<A, W>(t, ld, rows, lanes, b.dim, dp, k, n, k + n > first + 1);
    }
    auto write = [&](int64_t r) OM_LAMBDA {
      T *to = b.dq + offset + x.at(r);
      for_lanes<A, W>(b.dim, [&](int64_t j, auto c) OM_LAMBDA { store<W>(to + j, load<W>(t.dq + r * dp + j, c) * b.scale, c); });
    };
    for (int64_t r = 0; r < rows; r++) write(r);
  }
}

// The tiles hold the keys of the first sequence, and after them those of one sequence that continues it. The gradients of the
// first sequence's keys and values are sums over the family, in its order.
template <class T, class A, int W>
OM_INLINE void backward_family(const Backward<T, A> &b) {
  const int64_t width = Lanes<A, W>::n, dp = ceil_div(b.dim, width) * width, ld = rows_per_tile(b.group);
  int64_t keys = 0;
  for (const Sequence &s : b.family) keys = std::max(keys, s.before + s.n);
  const BackwardTiles<A> t(ld, keys, dp);
  std::fill(t.k, t.k + 4 * TileMemory::size<A>(keys * dp) / static_cast<int64_t>(sizeof(A)), A(0));
  std::fill(t.q, t.q + 2 * TileMemory::size<A>(ld * dp) / static_cast<int64_t>(sizeof(A)), A(0));
  auto write = [&](const Sequence &s) OM_LAMBDA {
    for (int64_t i = 0; i < s.n; i++) {
      const int64_t from = (s.before + i) * dp, to = (s.begin + i) * b.kv_stride;
      for_lanes<A, W>(b.dim, [&](int64_t j, auto c) OM_LAMBDA {
        store<W>(b.dk + to + j, load<W>(t.dk + from + j, c), c);
        store<W>(b.dv + to + j, load<W>(t.dv + from + j, c), c);
      });
    }
  };
  bool first = true;
  for (const Sequence &s : b.family) {
    auto place = [&](int64_t i) OM_LAMBDA { return (s.begin + i) * b.kv_stride; };
    copy_rows<W>(b.k, place, s.n, b.dim, A(1), t.k + s.before * dp, dp);
    copy_rows<W>(b.v, place, s.n, b.dim, A(1), t.v + s.before * dp, dp);
    backward_queries<T, A, W>(b, s, t, ld, dp);
    if (!first) {
      write(s);
      for (A *sums : {t.dk, t.dv}) std::fill(sums + s.before * dp, sums + (s.before + s.n) * dp, A(0));
    }
    first = false;
  }
  write(b.family[0]);
}

#define OM_ATTEND_BACKWARD(T, A) \
  OM_MULTIVERSION(attend_backward, (const Backward<T, A> &b), (b), backward_family<T, A, W>(b))
OM_ATTEND_BACKWARD(float, float)
OM_ATTEND_BACKWARD(c10::BFloat16, float)
OM_ATTEND_BACKWARD(double, double)

// The families of a pack, in its order. parents[i] is the sequence that sequence i continues, or -1.
std::vector<Family> families(const std::vector<int64_t> &offsets, const std::vector<int64_t> &parents) {
  std::vector<Family> list;
  std::vector<size_t> at(parents.size());
  for (size_t i = 0; i < parents.size(); i++) {
    Sequence s{offsets[i], offsets[i + 1] - offsets[i]};
    if (parents[i] < 0) {
      at[i] = list.size();
      list.push_back({s});
      continue;
    }
    Family &f = list[at[parents[i]]];
    s.parent = f[0].begin;
    s.before = f[0].n;
    f.push_back(s);
  }
  return list;
}

// n queries from query `first` of a sequence, for one key head.
struct PackedBlock {
  Sequence of;
  int64_t first, n, kv_head;
};

// Blocks of at most `step` queries of every sequence, the largest amount of work first.
std::vector<PackedBlock> packed_blocks(const std::vector<Family> &families, int64_t kv_heads, int64_t step) {
  std::vector<PackedBlock> blocks;
  for (const Family &family : families)
    for (const Sequence &s : family)
      for (int64_t f = 0; f < s.n; f += step)
        for (int64_t h = 0; h < kv_heads; h++) blocks.push_back({s, f, std::min(step, s.n - f), h});
  std::stable_sort(blocks.begin(), blocks.end(), [](const PackedBlock &a, const PackedBlock &b) {
    return a.of.work(a.first, a.n) > b.of.work(b.first, b.n);
  });
  return blocks;
}

// Returns the result and lse [N,Hq], the logarithms of the sums of exp(score).
std::pair<at::Tensor, at::Tensor> packed_forward(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                                                 const std::vector<Family> &families, double scale) {
  const int64_t heads = q.size(1), own = k.size(1), dim = q.size(2), group = heads / own;
  at::Tensor out = at::empty(q.sizes(), q.options());
  at::Tensor lse = at::empty({q.size(0), heads}, q.options().dtype(compute_type(q.scalar_type())));
  const auto blocks = packed_blocks(families, own, queries_per_tile(group));
  OM_DISPATCH(q.scalar_type(), "attention", [&] {
    using A = Lanes<scalar_t, 16>::A;
    const scalar_t *qp = q.const_data_ptr<scalar_t>(), *kp = k.const_data_ptr<scalar_t>(),
                   *vp = v.const_data_ptr<scalar_t>();
    scalar_t *op = out.data_ptr<scalar_t>();
    A *lp = lse.data_ptr<A>();
    share_out(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
      const PackedBlock &b = blocks[i];
      const Sequence &s = b.of;
      const int64_t token = s.begin + b.first, head = b.kv_head * group, at = (token * heads + head) * dim;
      const int64_t begin = s.before > 0 ? s.parent : s.begin, kv = (begin * own + b.kv_head) * dim;
      AttendBlock<scalar_t, scalar_t, A>::run(
          {qp + at, s.before + b.first, b.n, group, heads * dim, dim},
          {kp + kv, vp + kv, nullptr, 0, own * dim, dim, s.before, s.begin - (begin + s.before)}, A(scale), op + at,
          lp + token * heads + head, heads);
    });
  });
  return {out, lse};
}

struct Packed : torch::autograd::Function<Packed> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &q, const at::Tensor &k,
                            const at::Tensor &v, const std::vector<int64_t> &offsets, const std::vector<int64_t> &parents,
                            double scale) {
    auto [out, lse] = packed_forward(q, k, v, families(offsets, parents), scale);
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["parents"] = parents;
    ctx->saved_data["scale"] = scale;
    return out;
  }

  // Tasks are (family, key head), because the queries of one task add to the same gradients.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const at::Tensor dout = grads[0].contiguous();
    auto list = families(ctx->saved_data["offsets"].toIntVector(), ctx->saved_data["parents"].toIntVector());
    const double scale = ctx->saved_data["scale"].toDouble();
    const int64_t heads = q.size(1), own = k.size(1), dim = q.size(2), group = heads / own;
    at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
    auto work = [](const Family &f) {
      int64_t sum = 0;
      for (const Sequence &s : f) sum += s.work(0, s.n);
      return sum;
    };
    std::stable_sort(list.begin(), list.end(), [&](const Family &a, const Family &b) { return work(a) > work(b); });
    OM_DISPATCH(q.scalar_type(), "attention backward", [&] {
      using A = Lanes<scalar_t, 16>::A;
      const scalar_t *qp = q.const_data_ptr<scalar_t>(), *kp = k.const_data_ptr<scalar_t>(),
                     *vp = v.const_data_ptr<scalar_t>(), *op = out.const_data_ptr<scalar_t>(),
                     *gp = dout.const_data_ptr<scalar_t>();
      scalar_t *dqp = dq.data_ptr<scalar_t>(), *dkp = dk.data_ptr<scalar_t>(), *dvp = dv.data_ptr<scalar_t>();
      const A *lp = lse.const_data_ptr<A>();
      share_out(static_cast<int64_t>(list.size()) * own, [&](int64_t i) {
        const int64_t head = i % own * group, at = head * dim, kv = i % own * dim;
        attend_backward(Backward<scalar_t, A>{list[i / own], group, heads * dim, own * dim, dim, qp + at, kp + kv, vp + kv,
                                              op + at, gp + at, lp + head, heads, dqp + at, dkp + kv, dvp + kv, A(scale)});
      });
    });
    return {dq, dk, dv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// One sequence of t [N,H,Dh] as [1,Hq,L,Dh], with repeated heads if H < Hq.
at::Tensor sequence(const at::Tensor &t, int64_t begin, int64_t end, int64_t heads) {
  at::Tensor s = t.slice(0, begin, end);
  const int64_t own = t.size(1);
  if (own != heads)
    s = s.unsqueeze(2).expand({end - begin, own, heads / own, t.size(2)}).reshape({end - begin, heads, t.size(2)});
  return s.transpose(0, 1).unsqueeze(0);
}

// The sequences of a pass as a GPU's operations take them.
struct PackedEnds {
  at::Tensor ends;      // offsets of the sequences that are not empty, int32 on the device
  int64_t longest = 0;  // largest length
};

// All layers of a pass have the same offsets, so the last ones of a thread are kept and uploaded once.
const PackedEnds &ends_on(const std::vector<int64_t> &offsets, at::Device device) {
  static thread_local std::vector<int64_t> last;
  static thread_local PackedEnds kept;
  if (kept.ends.defined() && kept.ends.device() == device && last == offsets) return kept;
  std::vector<int32_t> ends{0};
  kept.longest = 0;
  for (const int64_t o : offsets) {
    if (o == ends.back()) continue;
    kept.longest = std::max(kept.longest, o - ends.back());
    ends.push_back(static_cast<int32_t>(o));
  }
  kept.ends = gpu::upload(ends.data(), {static_cast<int64_t>(ends.size())}, at::kInt, device);
  last = offsets;
  return kept;
}

// ATen's operations for GPUs have gradients of their own. Flash attention takes 16-bit types, and key heads that query heads share.
bool takes_flash(const at::Tensor &q) {
  const auto type = q.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && q.size(2) % 8 == 0 && q.size(2) <= 256;
}

at::Tensor flash(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const PackedEnds &s, double scale) {
  return std::get<0>(at::_flash_attention_forward(q, k, v, s.ends, s.ends, s.longest, s.longest, 0.0, true, false, scale));
}

// The other one takes float32, and equal numbers of heads.
bool takes_efficient(const at::Tensor &q) { return q.scalar_type() == at::kFloat && q.size(2) % 4 == 0; }

at::Tensor efficient(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const PackedEnds &s, double scale) {
  constexpr int64_t causal = 1;  // sdp::CustomMaskType::CausalFromTopLeft
  auto repeated = [&](const at::Tensor &t) {
    const int64_t n = t.size(0), own = t.size(1), dim = t.size(2);
    if (own == q.size(1)) return t.unsqueeze(0);
    return t.unsqueeze(2).expand({n, own, q.size(1) / own, dim}).reshape({1, n, q.size(1), dim});
  };
  return std::get<0>(at::_efficient_attention_forward(q.unsqueeze(0), repeated(k), repeated(v), {}, s.ends, s.ends, s.longest,
                                                      s.longest, 0.0, causal, wants_grad(q, k, v), scale))
      .squeeze(0);
}

// Attention of each sequence with ATen's operations, on any device and in any type.
at::Tensor one_by_one(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const std::vector<int64_t> &offsets,
                      double scale) {
  std::vector<int64_t> lengths;
  for (size_t s = 0; s + 1 < offsets.size(); s++) lengths.push_back(offsets[s + 1] - offsets[s]);
  if (lengths.empty()) return at::zeros_like(q);
  const auto qs = q.split_with_sizes(lengths), ks = k.split_with_sizes(lengths), vs = v.split_with_sizes(lengths);
  std::vector<at::Tensor> outs;
  for (size_t s = 0; s < lengths.size(); s++) {
    const int64_t n = lengths[s], h = q.size(1);
    outs.push_back(at::scaled_dot_product_attention(sequence(qs[s], 0, n, h), sequence(ks[s], 0, n, h),
                                                    sequence(vs[s], 0, n, h), {}, 0.0, true, scale)
                       .squeeze(0)
                       .transpose(0, 1));
  }
  return at::cat(outs, 0);
}

// Attention of sequences without parents.
at::Tensor separate(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const std::vector<int64_t> &offsets,
                    double scale) {
  if (q.is_cpu() || !kernels_on() || q.size(0) == 0) return one_by_one(q, k, v, offsets, scale);
  if (takes_flash(q)) return flash(q, k, v, ends_on(offsets, q.device()), scale);
  if (takes_efficient(q)) return efficient(q, k, v, ends_on(offsets, q.device()), scale);
  return one_by_one(q, k, v, offsets, scale);
}

// Attention without the kernel: every sequence gets a copy of its parent's tokens, whose results are dropped.
at::Tensor with_copies(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const std::vector<int64_t> &offsets,
                       const std::vector<int64_t> &parents, double scale) {
  std::vector<int64_t> lengths, copied{0}, pieces;
  for (size_t i = 0; i < parents.size(); i++) lengths.push_back(offsets[i + 1] - offsets[i]);
  for (size_t i = 0; i < parents.size(); i++) {
    pieces.push_back(parents[i] < 0 ? 0 : lengths[parents[i]]);
    pieces.push_back(lengths[i]);
    copied.push_back(copied.back() + pieces[2 * i] + lengths[i]);
  }
  auto copy = [&](const at::Tensor &t) {
    const auto parts = t.split_with_sizes(lengths);
    std::vector<at::Tensor> list;
    for (size_t i = 0; i < parents.size(); i++) {
      if (parents[i] >= 0) list.push_back(parts[parents[i]]);
      list.push_back(parts[i]);
    }
    return at::cat(list, 0);
  };
  const auto results = separate(copy(q), copy(k), copy(v), copied, scale).split_with_sizes(pieces);
  std::vector<at::Tensor> own;
  for (size_t i = 0; i < parents.size(); i++) own.push_back(results[2 * i + 1]);
  return at::cat(own, 0);
}

at::Tensor attention_packed(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                            const std::vector<int64_t> &offsets, const std::vector<int64_t> &parents, double scale) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && k.size(0) == q.size(0) &&
                  k.size(2) == q.size(2) && k.size(1) > 0 && q.size(1) % k.size(1) == 0,
              "attention: q must be [N,Hq,Dh] and k, v [N,Hkv,Dh] with Hq a multiple of Hkv, not ", q.sizes(), ", ",
              k.sizes(), ", ", v.sizes());
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "attention: q, k and v must have one type, not ", q.scalar_type(), ", ", k.scalar_type(), ", ",
              v.scalar_type());
  same_device("attention", q, k, v);
  TORCH_CHECK(!offsets.empty() && offsets.front() == 0 && offsets.back() == q.size(0) &&
                  std::is_sorted(offsets.begin(), offsets.end()),
              "attention: offsets must rise from 0 to N = ", q.size(0), ", not ", offsets);
  bool shares = false;
  for (size_t i = 0; i < parents.size(); i++) {
    const int64_t p = parents[i];
    TORCH_CHECK(p == -1 || (p >= 0 && p < static_cast<int64_t>(i) && parents[p] == -1), "attention: the parent of sequence ", i,
                " must be -1 or an earlier sequence without a parent, not ", p);
    shares = shares || p >= 0;
  }
  if (has_kernel(q)) {
    const at::Tensor qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
    if (wants_grad(q, k, v)) return Packed::apply(qc, kc, vc, offsets, parents, scale);
    return packed_forward(qc, kc, vc, families(offsets, parents), scale).first;
  }
  return shares ? with_copies(q, k, v, offsets, parents, scale) : separate(q, k, v, offsets, scale);
}

}  // namespace
}  // namespace om

const char *om_attention_packed(om_tensor q, om_tensor k, om_tensor v, const int64_t *offsets, int64_t n_offsets,
                                double scale, om_tensor *out) {
  const std::vector<int64_t> parents(n_offsets > 0 ? n_offsets - 1 : 0, -1);
  return om_attention_shared(q, k, v, offsets, parents.data(), n_offsets, scale, out);
}

const char *om_attention_shared(om_tensor q, om_tensor k, om_tensor v, const int64_t *offsets, const int64_t *parents,
                                int64_t n_offsets, double scale, om_tensor *out) {
  OM_TRY {
    *out = om::wrap(om::attention_packed(om::ref(q), om::ref(k), om::ref(v),
                                         std::vector<int64_t>(offsets, offsets + n_offsets),
                                         std::vector<int64_t>(parents, parents + std::max<int64_t>(0, n_offsets - 1)), scale));
  }
  OM_END
}
