// Sampling by the Gumbel-max trick with counter-based noise: the token is argmax over v of z_v/T + G_v, and G_v is a
// function of (key, position, v) only, so a draw does not depend on the rest of the batch.
//
// G = -log(-log(1 - w)), w = (h + 1/2) / 2^32, h being word v mod 4 of Philox 4x32-10 (Salmon et al., SC 2011) with
// the counter (v/4, 0, position) and the key. 32 bits put the largest G at 22.9.
#include <algorithm>
#include <vector>

#include "fused.h"

namespace om {
namespace {

constexpr uint32_t kPhiloxM0 = 0xD2511F53, kPhiloxM1 = 0xCD9E8D57;
constexpr uint32_t kPhiloxW0 = 0x9E3779B9, kPhiloxW1 = 0xBB67AE85;
constexpr int kPhiloxRounds = 10;
constexpr int kBlocks = 16;               // counters advanced together, so that a compiler can use vectors
constexpr int kTokens = 4 * kBlocks;      // noise words of kBlocks counters

// Philox on kBlocks counters (c[0][i], c[1][i], c[2][i], c[3][i]).
OM_INLINE void philox(uint32_t c[4][kBlocks], uint32_t k0, uint32_t k1) {
  for (int r = 0; r < kPhiloxRounds; r++) {
    for (int i = 0; i < kBlocks; i++) {
      const uint64_t p0 = static_cast<uint64_t>(c[0][i]) * kPhiloxM0, p1 = static_cast<uint64_t>(c[2][i]) * kPhiloxM1;
      const uint32_t c1 = c[1][i], c3 = c[3][i];
      c[0][i] = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c[1][i] = static_cast<uint32_t>(p1);
      c[2][i] = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
}

// The noise words of the tokens [first, first + kTokens), first a multiple of 4.
OM_INLINE void noise_body(uint64_t key, uint64_t position, int64_t first, uint32_t *h) {
  uint32_t c[4][kBlocks];
  for (int i = 0; i < kBlocks; i++) {
    c[0][i] = static_cast<uint32_t>(first / 4 + i);
    c[1][i] = 0;
    c[2][i] = static_cast<uint32_t>(position);
    c[3][i] = static_cast<uint32_t>(position >> 32);
  }
  philox(c, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
  for (int i = 0; i < kBlocks; i++)
    for (int j = 0; j < 4; j++) h[4 * i + j] = c[j][i];
}
OM_MULTIVERSION(noise, (uint64_t key, uint64_t position, int64_t first, uint32_t *h), (key, position, first, h),
                static_cast<void>(W), noise_body(key, position, first, h))

double gumbel(uint32_t h) { return -std::log(-std::log1p(-(h + 0.5) * 0x1p-32)); }

// An upper bound of the Gumbel noise of every word, within 1e-3: -log(1 - w) >= w, and the bits of a float are an
// underestimate of its base 2 logarithm.
template <int W>
OM_INLINE void bound_body(const float *z, const uint32_t *h, float scale, float *bound) {
  using F = typename Vectors<W>::f32;
  using U = typename Vectors<W>::u32;
  using I = typename Vectors<W>::i32;
  for (int i = 0; i < kTokens; i += W / 4) {
    U hi;
    std::memcpy(&hi, h + i, sizeof hi);
    // A conversion from signed integers is one instruction everywhere; the lowest bit does not matter for a bound.
    const F w = __builtin_convertvector((I)(hi >> 1), F) * 0x1p-31f + 0x1p-33f;
    const F log2 = __builtin_convertvector((I)w, F) * 0x1p-23f - 127.0f;
    store<W>(bound + i, load<W>(z + i) * scale - log2 * 0.69314718f);
  }
}
OM_MULTIVERSION(bounds, (const float *z, const uint32_t *h, float scale, float *bound), (z, h, scale, bound),
                bound_body<W>(z, h, scale, bound))

// The maximum of a row, its first index, and the sum of exp((z - max) · scale).
struct RowStats {
  float top;
  int64_t at;
  double sum;
  bool bad;  // a NaN, +inf, or no finite value
};

template <int W>
OM_INLINE void stats_body(const float *z, int64_t n, float scale, RowStats *out) {
  using V = typename Vectors<W>::f32;
  V tops = V{} - INFINITY, nan = {};
  float top = -INFINITY;
  bool bad = false;
  for_lanes<float, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    if constexpr (std::is_same_v<decltype(c), Whole>) {
      const V x = load<W>(z + i);
      tops = x > tops ? x : tops;
      nan += x * 0.0f;  // stays NaN if x is NaN or infinite; -inf is checked below
    } else {
      for (int64_t j = i; j < n; j++) {
        top = std::max(top, z[j]);
        bad = bad || std::isnan(z[j]);
      }
    }
  });
  for (int j = 0; j < W / 4; j++) top = std::max(top, tops[j]);
  if (std::isnan(sum_lanes<W>(nan)))
    for (int64_t i = 0; i < n; i++) bad = bad || std::isnan(z[i]);
  *out = {top, 0, 0, bad || std::isinf(top)};
  if (out->bad) return;
  while (z[out->at] != top) out->at++;
  for (int64_t b = 0; b < n; b += 4096) {
    V s = {};
    for_lanes<float, W>(std::min<int64_t>(4096, n - b), [&](int64_t i, auto c) OM_LAMBDA {
      V e = exp_lanes<W>((load<W>(z + b + i, c) - top) * scale);
      if constexpr (!std::is_same_v<decltype(c), Whole>) {
        for (int j = static_cast<int>(c); j < W / 4; j++) e[j] = 0;
      }
      s += e;
    });
    out->sum += sum_lanes<W>(s);
  }
}
OM_MULTIVERSION(row_stats, (const float *z, int64_t n, float scale, RowStats *out), (z, n, scale, out),
                stats_body<W>(z, n, scale, out))

// argmax of z/T + G over the whole row. Noise is computed only for tokens with an upper bound above the best score so far.
int64_t draw(const float *z, int64_t n, double scale, const RowStats &stats, const om_sample_row &row) {
  double best = -INFINITY;
  int64_t id = stats.at;
  const double slack = 0.01 + 1e-6 * std::abs(stats.top * scale);
  uint32_t h[kTokens];
  float bound[kTokens], tail[kTokens];
  for (int64_t b = 0; b < n; b += kTokens) {
    const int64_t count = std::min<int64_t>(kTokens, n - b);
    const float *zb = z + b;
    if (count < kTokens) {
      std::fill(tail, tail + kTokens, -INFINITY);
      std::copy(zb, zb + count, tail);
      zb = tail;
    }
    noise(row.key, row.position, b, h);
    bounds(zb, h, static_cast<float>(scale), bound);
    for (int i = 0; i < kTokens; i++) {
      if (!(bound[i] + slack >= best)) continue;
      const double s = zb[i] * scale + gumbel(h[i]);
      if (s > best) {
        best = s;
        id = b + i;
      }
    }
  }
  return id;
}

template <int W>
OM_INLINE void weights_body(const float *z, int64_t n, float top, float scale, float *w) {
  for_lanes<float, W>(n, [&](int64_t i, auto c) OM_LAMBDA { store<W>(w + i, exp_lanes<W>((load<W>(z + i, c) - top) * scale), c); });
}
OM_MULTIVERSION(token_weights, (const float *z, int64_t n, float top, float scale, float *w), (z, n, top, scale, w),
                weights_body<W>(z, n, top, scale, w))

// Reduces ids to the fewest largest logits whose amounts sum to target; the amount of a token is 1
// or its weight. Tokens are binned by logit, and only the bin that reaches the target is sorted.
void keep_head(const float *z, const float *weights, double scale, float top, double target, std::vector<int32_t> &ids) {
  constexpr int bins = 512;  // an eighth wide in z/T
  auto amount = [&](int32_t id) { return weights != nullptr ? static_cast<double>(weights[id]) : 1.0; };
  auto bin = [&](int32_t id) { return static_cast<int>(std::min((top - z[id]) * scale * 8, bins - 1.0)); };
  double amounts[bins] = {};
  for (const int32_t id : ids) amounts[bin(id)] += amount(id);
  double held = 0;
  int last = 0;
  while (last < bins - 1 && held + amounts[last] < target) held += amounts[last++];
  std::vector<int32_t> kept, edge;
  for (const int32_t id : ids) {
    const int b = bin(id);
    if (b < last) kept.push_back(id);
    if (b == last) edge.push_back(id);
  }
  std::sort(edge.begin(), edge.end(), [z](int32_t a, int32_t b) { return z[a] > z[b] || (z[a] == z[b] && a < b); });
  for (const int32_t id : edge) {
    if (held >= target) break;
    kept.push_back(id);
    held += amount(id);
  }
  ids.swap(kept);
}

// Fills ids with the tokens kept by top_k followed by top_p, in ascending order.
void keep_tokens(const float *z, int64_t n, double scale, const RowStats &stats, const om_sample_row &row,
                 std::vector<int32_t> &ids) {
  ids.clear();
  for (int64_t v = 0; v < n; v++)
    if (z[v] > -INFINITY) ids.push_back(static_cast<int32_t>(v));
  if (row.top_k > 0) keep_head(z, nullptr, scale, stats.top, static_cast<double>(row.top_k), ids);
  if (row.top_p < 1) {
    std::vector<float> weights(n);
    token_weights(z, n, stats.top, static_cast<float>(scale), weights.data());
    double total = 0;
    for (const int32_t id : ids) total += weights[id];
    keep_head(z, weights.data(), scale, stats.top, row.top_p * total, ids);
  }
  std::sort(ids.begin(), ids.end());
}

// Samples from the kept tokens. log_sum becomes log Σ exp((z - top) · scale) over them.
int64_t draw_among(const std::vector<int32_t> &kept, const float *z, int64_t n, double scale, const RowStats &stats,
                   const om_sample_row &row, double &log_sum) {
  std::vector<float> allowed(n, -INFINITY);
  double sum = 0;
  for (const int32_t id : kept) {
    allowed[id] = z[id];
    sum += std::exp((static_cast<double>(z[id]) - stats.top) * scale);
  }
  log_sum = std::log(sum);
  return draw(allowed.data(), n, scale, stats, row);
}

void sample(const at::Tensor &logits, const om_sample_row *rows, int64_t n, int32_t *ids, float *logps,
            std::vector<std::vector<int32_t>> &kept) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(0) == n && logits.size(1) > 0, "sample: ", n,
              " rows need logits [R,V], not ", logits.sizes());
  const at::Tensor zt = logits.detach().to(at::kCPU, at::kFloat).contiguous();
  om::check_collectives();
  const float *z = zt.const_data_ptr<float>();
  const int64_t v = zt.size(1);
  std::vector<char> bad(n);
  parallel_for(0, n, 1, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; r++) {
      const om_sample_row &row = rows[r];
      const bool greedy = row.greedy != 0 || !(row.temperature > 0);
      const double scale = 1 / (row.temperature > 0 ? row.temperature : 1);
      const float *zr = z + r * v;
      RowStats stats;
      row_stats(zr, v, static_cast<float>(scale), &stats);
      bad[r] = stats.bad;
      if (stats.bad) continue;
      int64_t id = stats.at;
      double log_sum = std::log(stats.sum);
      if (!greedy && (row.top_k > 0 || row.top_p < 1)) keep_tokens(zr, v, scale, stats, row, kept[r]);
      if (static_cast<int64_t>(kept[r].size()) == v) kept[r].clear();
      if (!kept[r].empty())
        id = draw_among(kept[r], zr, v, scale, stats, row, log_sum);
      else if (!greedy)
        id = draw(zr, v, scale, stats, row);
      ids[r] = static_cast<int32_t>(id);
      logps[r] = static_cast<float>((static_cast<double>(zr[id]) - stats.top) * scale - log_sum);
    }
  });
  for (int64_t r = 0; r < n; r++)
    TORCH_CHECK(!bad[r], "sample: the logits of row ", r, " hold a NaN or +inf, or nothing finite");
}

}  // namespace
}  // namespace om

void om_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c[4][om::kBlocks] = {};
  for (int j = 0; j < 4; j++) c[j][0] = counter[j];
  om::philox(c, key[0], key[1]);
  for (int j = 0; j < 4; j++) out[j] = c[j][0];
}

const char *om_sample(om_tensor logits, const om_sample_row *rows, int64_t n, int32_t *ids, float *logps,
                      int64_t *kept_counts, om_tensor *kept) {
  OM_TRY {
    std::vector<std::vector<int32_t>> lists(n);
    om::sample(om::ref(logits), rows, n, ids, logps, lists);
    int64_t total = 0;
    for (int64_t r = 0; r < n; r++) total += kept_counts[r] = static_cast<int64_t>(lists[r].size());
    at::Tensor all = at::empty({total}, at::kInt);
    int32_t *to = all.data_ptr<int32_t>();
    for (const auto &list : lists) to = std::copy(list.begin(), list.end(), to);
    *kept = om::wrap(all);
  }
  OM_END
}
