// Log-probs and entropies of target tokens from hidden states. The logits exist only for a few rows at a time; the
// backward pass recomputes them. Rows without a target are skipped.
//
// With u = z/T: log p(y) = u_y - lse(u), H = lse(u) - Σ p u, and for gradients g of log p and h of H
//   d/du_v = g (1[v=y] - p_v) - h p_v (log p_v + H).
#include <algorithm>
#include <limits>
#include <vector>

#include "fused.h"
#include "gpu.h"

namespace om {
namespace {

// The logits of a chunk fit the caches of a CPU. A GPU needs large products.
constexpr int64_t kChunkBytes = 32 << 20, kGpuChunkBytes = 1 << 30;
constexpr int64_t kBlock = 4096;  // float32 sums run over at most this many values, float64 over the sums
constexpr double kLowest = -200;  // replaces logits of -inf, since 0 · inf would be NaN

// The reduction of a row of logits: maximum, log Σ e^(u - max/T) and entropy.
template <class A>
struct RowSums {
  A top, log_sum, entropy;
};

template <class T, int W>
OM_INLINE void reduce_row(const T *z, int64_t n, double temperature, RowSums<typename Lanes<T, W>::A> *out) {
  using A = typename Lanes<T, W>::A;
  using V = typename Lanes<T, W>::V;
  const A scale = static_cast<A>(1 / temperature), lowest = static_cast<A>(kLowest);
  A top = -INFINITY;
  V tops = V{} - std::numeric_limits<A>::infinity();
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    if constexpr (std::is_same_v<decltype(c), Whole>) {
      const V x = load<W>(z + i);
      tops = x > tops ? x : tops;
    } else {
      for (int64_t j = i; j < n; j++) top = std::max(top, static_cast<A>(z[j]));
    }
  });
  for (int j = 0; j < Lanes<T, W>::n; j++) top = std::max<A>(top, tops[j]);
  double sum = 0, weighted = 0;
  for (int64_t b = 0; b < n; b += kBlock) {
    V s = {}, ws = {};
    for_lanes<T, W>(std::min(kBlock, n - b), [&](int64_t i, auto c) OM_LAMBDA {
      V u = (load<W>(z + b + i, c) - top) * scale;
      const V low = V{} + lowest;
      u = u < low ? low : u;
      V e = exp_lanes<W>(u);
      if constexpr (!std::is_same_v<decltype(c), Whole>) {
        for (int j = static_cast<int>(c); j < Lanes<T, W>::n; j++) e[j] = 0;
      }
      s += e;
      ws += e * u;
    });
    sum += sum_lanes<W>(s);
    weighted += sum_lanes<W>(ws);
  }
  out->top = top;
  out->log_sum = static_cast<A>(std::log(sum));
  out->entropy = static_cast<A>(std::log(sum) - weighted / sum);
}

// Turns a row of logits into the gradient of the loss with respect to them.
template <class T, int W>
OM_INLINE void gradient_row(T *z, int64_t n, double temperature, RowSums<typename Lanes<T, W>::A> r, int64_t target,
                            typename Lanes<T, W>::A g, typename Lanes<T, W>::A h) {
  using A = typename Lanes<T, W>::A;
  using V = typename Lanes<T, W>::V;
  const A scale = static_cast<A>(1 / temperature), lowest = static_cast<A>(kLowest);
  const A y = (static_cast<A>(z[target]) - r.top) * scale - r.log_sum;
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    V log_p = (load<W>(z + i, c) - r.top) * scale - r.log_sum;
    const V low = V{} + lowest;
    log_p = log_p < low ? low : log_p;
    const V p = exp_lanes<W>(log_p);
    store<W>(z + i, p * (-g - h * (log_p + r.entropy)) * scale, c);
  });
  const A p = std::exp(y);
  z[target] = static_cast<T>((g * (1 - p) - h * p * (y + r.entropy)) * scale);
}

// Calls f(from, to) for blocks of a vocabulary of n tokens.
template <class F>
void for_blocks(int64_t n, const F &f) {
  for (int64_t from = 0; from < n; from += kBlock) f(from, std::min(n, from + kBlock));
}

#define OM_LOGPROBS(T, A)                                                                                     \
  OM_MULTIVERSION(reduce, (const T *z, int64_t n, double temperature, RowSums<A> *out), (z, n, temperature, out), \
                  reduce_row<T, W>(z, n, temperature, out))                                                   \
  OM_MULTIVERSION(gradient, (T * z, int64_t n, double temperature, const RowSums<A> &r, int64_t target, A g, A h), \
                  (z, n, temperature, r, target, g, h), gradient_row<T, W>(z, n, temperature, r, target, g, h))
OM_LOGPROBS(float, float)
OM_LOGPROBS(double, double)

// hidden · weightᵀ + bias with results in float32, or float64 for float64. Rounding a logit of 20 to bfloat16 changes it, and
// its log-prob, by up to 0.06. ATen's CPU product of bfloat16 operands gives bfloat16, so there the weight is converted, some
// rows at a time.
at::Tensor logits_of(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias) {
  const auto type = compute_type(weight.scalar_type());
  if (weight.scalar_type() == type) return at::linear(hidden, weight, bias).contiguous();
  if (!hidden.is_cpu()) {
    at::Tensor z = at::mm(hidden, weight.t(), type);
    return bias.defined() ? z.add_(bias) : z;
  }
  const at::Tensor rows = hidden.to(type);
  at::Tensor z = at::empty({hidden.size(0), weight.size(0)}, rows.options());
  for_blocks(weight.size(0), [&](int64_t from, int64_t to) {
    at::Tensor part = z.slice(1, from, to);
    at::mm_out(part, rows, weight.slice(0, from, to).to(type).t());
  });
  return bias.defined() ? z.add_(bias) : z;
}

// The tokens in the softmax of each row: ids[offsets[r]] … ids[offsets[r+1]-1], or the whole vocabulary if that is empty or
// offsets is undefined.
struct Kept {
  at::Tensor offsets, ids;  // int64 [R+1] and int32 in rising order in a row, on the CPU; on the device of the logits for its kernels
};

// gpu_kernels reports whether the kernels of cuda/logprobs.cu compute for operands like t.
bool gpu_kernels(const at::Tensor &t) { return gpu::ready(t); }

// Blocks of 256 threads that share a row of n logits.
int64_t blocks_of_row(int64_t n) { return std::max<int64_t>(1, std::min<int64_t>(ceil_div(n, 2048), 65535)); }

// Sets the excluded tokens of the rows [b, b+len) of z to -inf.
void leave_out(const at::Tensor &z, const Kept &kept, int64_t b) {
  if (kept.offsets.numel() == 0) return;
  if (gpu_kernels(z)) {
    gpu::Call("softmax_keep", z)(z)(kept.offsets.slice(0, b, b + z.size(0) + 1))(kept.ids)(static_cast<int>(z.size(1)))
        .run(z.size(0), blocks_of_row(z.size(1)), 1, 256);
    return;
  }
  at::Tensor out = at::zeros(z.sizes(), at::kBool);
  bool *mask = out.data_ptr<bool>();
  const int64_t *offsets = kept.offsets.const_data_ptr<int64_t>() + b, n = z.size(1);
  const int32_t *ids = kept.ids.const_data_ptr<int32_t>();
  for (int64_t r = 0; r < z.size(0); r++) {
    if (offsets[r] == offsets[r + 1]) continue;
    std::fill(mask + r * n, mask + (r + 1) * n, true);
    for (int64_t i = offsets[r]; i < offsets[r + 1]; i++) mask[r * n + ids[i]] = false;
  }
  z.masked_fill_(out.to(z.device()), -std::numeric_limits<double>::infinity());
}

// Calls f(begin, end, logits) for chunks of the rows.
template <class F>
void for_chunks(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias, const Kept &kept, const F &f) {
  const int64_t rows = hidden.size(0);
  const int64_t bytes = weight.size(0) * static_cast<int64_t>(at::elementSize(compute_type(weight.scalar_type())));
  int64_t step = std::max<int64_t>(1, (hidden.is_cpu() ? kChunkBytes : kGpuChunkBytes) / std::max<int64_t>(1, bytes));
  if (step > 64) step -= step % 64;  // products over a chunk's rows are several times slower for odd numbers of rows
  for (int64_t b = 0; b < rows; b += step) {
    const int64_t e = std::min(b + step, rows);
    const at::Tensor z = logits_of(hidden.slice(0, b, e), weight, bias);
    leave_out(z, kept, b);
    f(b, e, z);
  }
}

// ATen's version of reduce and gradient for other devices and types; sums is [rows,3], the rows as RowSums. The largest logit
// is subtracted first: the sum of a large logit and the logarithm is rounded to the large one's precision.
void reduce_aten(const at::Tensor &logits, double temperature, const at::Tensor &targets, at::Tensor sums,
                 at::Tensor logp) {
  const at::Tensor top = logits.amax(-1), u = (logits - top.unsqueeze(-1)) / temperature, lse = u.logsumexp(-1);
  const at::Tensor log_p = (u - lse.unsqueeze(-1)).clamp_min(kLowest);
  sums.select(1, 0).copy_(top);
  sums.select(1, 1).copy_(lse);
  sums.select(1, 2).copy_(-(log_p.exp() * log_p).sum(-1));
  logp.copy_(log_p.gather(1, targets.unsqueeze(1)).squeeze(1));
}

at::Tensor gradient_aten(const at::Tensor &logits, double temperature, const at::Tensor &sums,
                         const at::Tensor &targets, const at::Tensor &g, const at::Tensor &h) {
  const at::Tensor log_p =
      ((logits - sums.narrow(1, 0, 1)) / temperature - sums.narrow(1, 1, 1)).clamp_min(kLowest);
  at::Tensor d = log_p.exp() * (-g.unsqueeze(-1) - h.unsqueeze(-1) * (log_p + sums.select(1, 2).unsqueeze(-1)));
  d.scatter_add_(1, targets.unsqueeze(1), g.unsqueeze(1));
  return d / temperature;
}

// hidden [R,D] holds the rows that have a target, and targets [R] their targets (on the CPU, or for kernels of a GPU on the GPU).
// Fills logp and sums.
void forward_rows(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias,
                  const at::Tensor &targets, const Kept &kept, double temperature, const at::Tensor &logp, const at::Tensor &sums) {
  const int64_t *y = targets.is_cpu() ? targets.const_data_ptr<int64_t>() : nullptr;
  for_chunks(hidden, weight, bias, kept, [&](int64_t b, int64_t e, const at::Tensor &logits) {
    if (gpu_kernels(logits)) {
      gpu::Call("softmax", logits)(logits)(targets.slice(0, b, e))(static_cast<float>(1 / temperature))(sums.slice(0, b, e))(
          logp.slice(0, b, e))(static_cast<int>(logits.size(1))).run(e - b, 1, 1, 1024);
      return;
    }
    if (!has_kernel(logits)) {
      reduce_aten(logits, temperature, targets.slice(0, b, e).to(logits.device()), sums.slice(0, b, e),
                  logp.slice(0, b, e));
      return;
    }
    const int64_t n = logits.size(1);
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "log-probs", [&] {
      using A = scalar_t;
      const scalar_t *z = logits.const_data_ptr<scalar_t>();
      A *lp = logp.data_ptr<A>();
      auto *rs = reinterpret_cast<RowSums<A> *>(sums.data_ptr<A>());
      parallel_for(b, e, 1, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; r++) {
          const scalar_t *row = z + (r - b) * n;
          reduce(row, n, temperature, &rs[r]);
          lp[r] = static_cast<A>((static_cast<A>(row[y[r]]) - rs[r].top) / temperature) - rs[r].log_sum;
        }
      });
    });
  });
}

// d · weight in d's type, summed over the vocabulary in blocks: some BLAS libraries add its tens of thousands of terms
// sequentially, with a float32 rounding error four times that of others.
at::Tensor times_weight(const at::Tensor &d, const at::Tensor &weight) {
  if (d.scalar_type() != at::kFloat) return at::mm(d, weight);
  at::Tensor sum;
  for_blocks(weight.size(0), [&](int64_t from, int64_t to) {
    const at::Tensor product = at::mm(d.slice(1, from, to), weight.slice(0, from, to).to(at::kFloat));
    sum = sum.defined() ? sum.add_(product) : product;
  });
  return sum;
}

// The gradients of hidden, weight and bias. Weight and bias get a sum over all rows, in float32.
struct Gradients {
  at::Tensor hidden, weight, bias;
};

Gradients backward_rows(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias,
                        const at::Tensor &targets, const Kept &kept, double temperature, const at::Tensor &sums, const at::Tensor &g,
                        const at::Tensor &h, bool want_hidden, bool want_weight, bool want_bias) {
  const auto type = compute_type(weight.scalar_type());
  Gradients out;
  if (want_hidden) out.hidden = at::empty_like(hidden);
  if (want_bias) out.bias = at::zeros(bias.sizes(), bias.options().dtype(type));
  const int64_t *y = targets.is_cpu() ? targets.const_data_ptr<int64_t>() : nullptr;
  for_chunks(hidden, weight, bias, kept, [&](int64_t b, int64_t e, at::Tensor d) {
    if (gpu_kernels(d)) {
      const at::Tensor z = d;
      if (weight.scalar_type() != at::kFloat) d = at::empty(z.sizes(), weight.options());
      gpu::Call("softmax_backward", d)(z)(targets.slice(0, b, e))(static_cast<float>(1 / temperature))(sums.slice(0, b, e))(
          g.slice(0, b, e))(h.slice(0, b, e))(d)(static_cast<int>(z.size(1))).run(e - b, blocks_of_row(z.size(1)), 1, 256);
    } else if (has_kernel(d)) {
      const int64_t n = d.size(1);
      AT_DISPATCH_FLOATING_TYPES(d.scalar_type(), "log-probs backward", [&] {
        using A = scalar_t;
        scalar_t *z = d.data_ptr<scalar_t>();
        const A *gp = g.const_data_ptr<A>(), *hp = h.const_data_ptr<A>();
        const auto *rs = reinterpret_cast<const RowSums<A> *>(sums.const_data_ptr<A>());
        parallel_for(b, e, 1, [&](int64_t from, int64_t to) {
          for (int64_t r = from; r < to; r++) gradient(z + (r - b) * n, n, temperature, rs[r], y[r], gp[r], hp[r]);
        });
      });
    } else {
      d = gradient_aten(d, temperature, sums.slice(0, b, e), targets.slice(0, b, e).to(d.device()), g.slice(0, b, e),
                        h.slice(0, b, e));
    }
    if (want_bias) out.bias.add_(d.sum(0, false, type));
    if (!d.is_cpu()) d = d.to(weight.scalar_type());  // a GPU multiplies bfloat16 many times faster than float32
    if (want_hidden) {
      at::Tensor part = times_weight(d, weight);
      if (e - b == hidden.size(0))
        out.hidden = part.to(hidden.scalar_type());
      else
        out.hidden.slice(0, b, e).copy_(part);
    }
    if (!want_weight) return;
    const at::Tensor rows = hidden.slice(0, b, e).to(d.scalar_type());
    if (!out.weight.defined()) {
      const at::Tensor product = at::mm(d.t(), rows);
      out.weight = e == hidden.size(0) ? product : product.to(type);  // a single chunk needs no sum
    } else if (d.scalar_type() == type) {
      out.weight.addmm_(d.t(), rows);
    } else {
      out.weight.add_(at::mm(d.t(), rows));
    }
  });
  if (want_weight && !out.weight.defined()) out.weight = at::zeros_like(weight);  // no row had a target
  return out;
}

// A CPU tensor on a device.
at::Tensor to_device(const at::Tensor &t, at::Device device) {
  if (device.is_cpu() || t.numel() == 0) return t.to(device);
  const at::Tensor c = t.contiguous();
  return gpu::upload(c.const_data_ptr(), c.sizes(), c.scalar_type(), device);
}

struct TokenLogProbs : torch::autograd::Function<TokenLogProbs> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *ctx, const at::Tensor &hidden,
                                                const at::Tensor &weight, const std::optional<at::Tensor> &bias,
                                                const at::Tensor &targets, const at::Tensor &offsets,
                                                const at::Tensor &ids, double temperature) {
    const auto options = hidden.options().dtype(compute_type(hidden.scalar_type()));
    const at::Tensor rows = (targets >= 0).nonzero().squeeze(1), used = targets.index_select(0, rows);
    const bool all_rows = rows.size(0) == hidden.size(0);
    const at::Tensor place = all_rows ? rows : to_device(rows, hidden.device());  // read only if some rows have no target
    const at::Tensor picked = all_rows ? hidden.contiguous() : hidden.index_select(0, place);
    at::Tensor logp = at::empty({rows.size(0)}, options), sums = at::empty({rows.size(0), 3}, options);
    const at::Tensor b = bias.value_or(at::Tensor());
    const at::Device device = gpu_kernels(hidden) ? hidden.device() : at::Device(at::kCPU);
    const at::Tensor y = to_device(used, device), from = to_device(offsets, device), kept = to_device(ids, device);
    forward_rows(picked, weight, b, y, {from, kept}, temperature, logp, sums);
    ctx->save_for_backward({picked, weight, b, y, place, sums, from, kept});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["rows"] = hidden.size(0);
    if (all_rows) return {logp, sums.select(1, 2).contiguous()};
    const at::Tensor all = at::zeros({hidden.size(0)}, options);
    return {all.index_copy(0, place, logp), all.index_copy(0, place, sums.select(1, 2))};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &picked = saved[0], &place = saved[4], &sums = saved[5];
    const int64_t rows = ctx->saved_data["rows"].toInt();
    auto at_rows = [&](const at::Tensor &grad) {
      if (!grad.defined()) return at::zeros({place.size(0)}, sums.options());
      const at::Tensor g = grad.to(sums.scalar_type());
      return rows == place.size(0) ? g.contiguous() : g.index_select(0, place);
    };
    const bool want_hidden = ctx->needs_input_grad(0);
    Gradients out = backward_rows(picked, saved[1], saved[2], saved[3], {saved[6], saved[7]},
                                  ctx->saved_data["temperature"].toDouble(), sums, at_rows(grads[0]), at_rows(grads[1]), want_hidden, ctx->needs_input_grad(1),
                                  saved[2].defined() && ctx->needs_input_grad(2));
    if (want_hidden && rows != place.size(0))
      out.hidden = at::zeros({rows, picked.size(1)}, picked.options()).index_copy(0, place, out.hidden);
    if (out.weight.defined()) out.weight = out.weight.to(saved[1].scalar_type());
    if (out.bias.defined()) out.bias = out.bias.to(saved[2].scalar_type());
    return {out.hidden, out.weight, out.bias, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The kept tokens of the rows that have a target.
Kept kept_of(const int64_t *targets, int64_t n, const int64_t *offsets, const int32_t *ids, int64_t vocabulary) {
  if (offsets == nullptr) return {at::empty({0}, at::kLong), at::empty({0}, at::kInt)};
  std::vector<int64_t> ends{0};
  std::vector<int32_t> all;
  for (int64_t r = 0; r < n; r++) {
    if (targets[r] < 0) continue;
    bool found = offsets[r] == offsets[r + 1];
    for (int64_t i = offsets[r]; i < offsets[r + 1]; i++) {
      TORCH_CHECK(ids[i] >= 0 && ids[i] < vocabulary, "log-probs: kept token ", ids[i], " at row ", r,
                  " is outside the vocabulary of ", vocabulary);
      found = found || ids[i] == targets[r];
    }
    TORCH_CHECK(found, "log-probs: target ", targets[r], " at row ", r, " is not among the kept tokens");
    all.insert(all.end(), ids + offsets[r], ids + offsets[r + 1]);
    std::sort(all.begin() + ends.back(), all.end());
    ends.push_back(static_cast<int64_t>(all.size()));
  }
  return {at::tensor(ends, at::kLong), at::tensor(all, at::kInt)};
}

torch::autograd::variable_list token_logprobs(const at::Tensor &hidden, const at::Tensor &weight,
                                              const at::Tensor &bias, const int64_t *targets, int64_t n,
                                              const int64_t *kept_offsets, const int32_t *kept_ids, double temperature) {
  TORCH_CHECK(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1) && hidden.size(0) == n &&
                  hidden.scalar_type() == weight.scalar_type(),
              "log-probs: hidden [N,D] and weight [V,D] of one type and N targets are wanted, not ", hidden.sizes(), " ",
              hidden.scalar_type(), ", ", weight.sizes(), " ", weight.scalar_type(), " and ", n);
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) &&
                                  bias.scalar_type() == weight.scalar_type()),
              "log-probs: bias must be [", weight.size(0), "] of the weight's type");
  same_device("log-probs", hidden, weight, bias);
  TORCH_CHECK(temperature > 0, "log-probs: the temperature must be above 0, not ", temperature);
  at::Tensor y = at::empty({n}, at::kLong);
  for (int64_t i = 0; i < n; i++) {
    TORCH_CHECK(targets[i] < weight.size(0), "log-probs: target ", targets[i], " at row ", i,
                " is outside the vocabulary of ", weight.size(0));
    y.data_ptr<int64_t>()[i] = targets[i];
  }
  const Kept kept = kept_of(targets, n, kept_offsets, kept_ids, weight.size(0));
  return TokenLogProbs::apply(hidden, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, y,
                              kept.offsets, kept.ids, temperature);
}

}  // namespace
}  // namespace om

const char *om_logits(om_tensor hidden, om_tensor weight, om_tensor bias, om_tensor *out) {
  OM_TRY {
    at::NoGradGuard no_grad;
    om::same_device("logits", om::ref(hidden), om::ref(weight), om::opt(bias));
    const at::Tensor &h = om::ref(hidden), &w = om::ref(weight);
    const bool pairs = om::has_kernel(h) && h.dim() == 2 && h.scalar_type() == at::kBFloat16 && w.scalar_type() == at::kBFloat16 && w.is_contiguous();
    *out = om::wrap((pairs ? om::logits_skinny : om::logits_of)(h, w, om::opt(bias)));
  }
  OM_END
}

const char *om_token_logprobs(om_tensor hidden, om_tensor weight, om_tensor bias, const int64_t *targets, int64_t n,
                              const int64_t *kept_offsets, const int32_t *kept, double temperature, om_tensor *logp,
                              om_tensor *entropy) {
  OM_TRY {
    const auto r = om::token_logprobs(om::ref(hidden), om::ref(weight), om::opt(bias), targets, n, kept_offsets, kept,
                                      temperature);
    *logp = om::wrap(r[0]);
    if (entropy != nullptr) *entropy = om::wrap(r[1]);
  }
  OM_END
}
