// Sampling by the Gumbel-max trick, as fused_sample.cc describes: the words of noise are those of the CPU, and the scores z/T + G are
// computed in float64 as there. The two logarithms of G may differ from the CPU's in the last bit, so a draw may differ only if
// two scores are closer than 1e-14. Weights of top-p are rounded to 2⁻⁴⁴ of the largest, so that their sums do not depend on the
// order of the threads; log-probs agree within 1e-6.
#include "common.h"

constexpr int kDrawWords = 10;        // a row's parameters, see Draw
constexpr int kSamplePart = 8192;     // tokens of a row that a block of sample_f32 processes
constexpr int kSampleThreads = 256;   // the largest block of sample_f32
constexpr int kCutThreads = 1024;     // the largest block of sample_cut_f32 and sample_kept_f32
constexpr unsigned kLeastKey = 0x00800000;  // order_key of the lowest finite number

// The sampling parameters of a row.
struct Draw {
  unsigned long long key, position;
  double scale, top_p;  // scale is 1/T
  int top_k;            // 0: off
  bool greedy;
};

OM_DEVICE unsigned long long two_words(const int *w) {
  return static_cast<unsigned long long>(static_cast<unsigned>(w[1])) << 32 | static_cast<unsigned>(w[0]);
}

OM_DEVICE double bits_to_double(unsigned long long u) {
  union {
    unsigned long long u;
    double d;
  } x;
  x.u = u;
  return x.d;
}

OM_DEVICE Draw draw_of(const int *draws, int row) {
  const int *w = draws + row * kDrawWords;
  return {two_words(w), two_words(w + 2), bits_to_double(two_words(w + 4)), bits_to_double(two_words(w + 6)), w[8], w[9] != 0};
}

// Part of a row's tokens, which top-k and top-p keep: those with a key above edge, and those with the key edge up to the id last.
struct Cut {
  unsigned edge;
  int last;
  int count;  // tokens kept; 0: all of the row
  int unused;
};

// order_key maps numbers to integers in the same order, and -0 to the key of 0.
OM_DEVICE unsigned order_key(float z) {
  const unsigned u = float_to_bits(z + 0.0f);
  return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

OM_DEVICE bool keeps(const Cut &c, float z, int id) {
  const unsigned k = order_key(z);
  return k > c.edge || (k == c.edge && id <= c.last);
}

// The noise words of the tokens 4·block … 4·block + 3, by ten rounds of Philox 4x32.
OM_DEVICE void noise_words(const Draw &d, unsigned block, unsigned h[4]) {
  unsigned c0 = block, c1 = 0, c2 = static_cast<unsigned>(d.position), c3 = static_cast<unsigned>(d.position >> 32);
  unsigned k0 = static_cast<unsigned>(d.key), k1 = static_cast<unsigned>(d.key >> 32);
  for (int r = 0; r < 10; r++) {
    const unsigned long long p0 = static_cast<unsigned long long>(c0) * 0xD2511F53u, p1 = static_cast<unsigned long long>(c2) * 0xCD9E8D57u;
    c0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned>(p1);
    c2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  h[0] = c0;
  h[1] = c1;
  h[2] = c2;
  h[3] = c3;
}

OM_DEVICE double gumbel(unsigned h) { return -log(-log1p(-(h + 0.5) * (1.0 / 4294967296.0))); }

// An upper bound of gumbel(h), within 1e-3, that needs no logarithm; see bound_body in fused_sample.cc.
OM_DEVICE float gumbel_bound(unsigned h) {
  const float w = static_cast<float>(static_cast<int>(h >> 1)) * 4.6566129e-10f + 1.1641532e-10f;
  return (127.0f - static_cast<float>(static_cast<int>(float_to_bits(w))) * 1.1920929e-7f) * 0.69314718f;
}

// What is known of some tokens of a row: the largest logit and its first id, Σ exp((z - top)·scale), and the largest score and its
// first id.
struct Tokens {
  double sum, best;
  float top;
  int at, id, bad;  // bad: a NaN or +inf
};
static_assert(sizeof(Tokens) == 32, "the caller reserves 4 doubles");

OM_DEVICE void merge(Tokens &a, const Tokens &b, double scale) {
  if (b.sum > 0) {
    const float top = fmaxf(a.top, b.top);
    a.sum = (a.sum > 0 ? a.sum * exp((static_cast<double>(a.top) - top) * scale) : 0) + b.sum * exp((static_cast<double>(b.top) - top) * scale);
  }
  if (b.top > a.top || (b.top == a.top && b.at < a.at)) {
    a.top = b.top;
    a.at = b.at;
  }
  if (b.best > a.best || (b.best == a.best && b.id < a.id)) {
    a.best = b.best;
    a.id = b.id;
  }
  a.bad |= b.bad;
}

// One block a (row, part of its tokens). out [3, R] receives the ids, or -1 for a row without a valid distribution, the bits of the
// log-probs, and the numbers of kept tokens. cuts [R] is null if no row has top-k or top-p. partial is [R, parts], counters [R] is
// 0 before and after.
OM_KERNEL sample_f32(const float *logits, const int *draws, const Cut *cuts, Tokens *partial, int *counters, int *out, int v) {
  __shared__ Tokens threads[kSampleThreads];
  const int row = blockIdx.x, part = blockIdx.y, parts = gridDim.y, rows = gridDim.x;
  const float infinity = bits_to_float(0x7f800000);
  const Draw d = draw_of(draws, row);
  const float scale = static_cast<float>(d.scale);
  const float *z = logits + static_cast<long long>(row) * v;
  const bool all = cuts == nullptr || cuts[row].count == 0;
  Cut cut{0, 0, 0, 0};
  if (!all) cut = cuts[row];

  Tokens t{0, -static_cast<double>(infinity), -infinity, v, v, 0};
  const int end = min((part + 1) * kSamplePart, v);
  for (int b = part * kSamplePart + 4 * threadIdx.x; b < end; b += 4 * blockDim.x) {
    unsigned h[4] = {0, 0, 0, 0};
    if (!d.greedy) noise_words(d, b / 4, h);
    for (int i = b; i < min(b + 4, end); i++) {
      const float x = z[i];
      t.bad |= !(x < infinity);
      if (!(x > -infinity) || !(all || keeps(cut, x, i))) continue;
      if (x > t.top) {
        t.sum *= exp((static_cast<double>(t.top) - x) * d.scale);
        t.top = x;
        t.at = i;
      }
      t.sum += expf((x - t.top) * scale);
      const float y = x * scale;
      if (d.greedy || y + gumbel_bound(h[i - b]) + (0.01f + 1e-6f * fabsf(y)) < t.best) continue;
      const double s = x * d.scale + gumbel(h[i - b]);
      if (s > t.best) {
        t.best = s;
        t.id = i;
      }
    }
  }
  threads[threadIdx.x] = t;
  __syncthreads();
  for (int n = blockDim.x, half; n > 1; n = half) {
    half = (n + 1) / 2;
    if (static_cast<int>(threadIdx.x) + half < n) merge(threads[threadIdx.x], threads[threadIdx.x + half], d.scale);
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[static_cast<long long>(row) * parts + part] = threads[0];
  if (!last_block(counters + row, parts) || threadIdx.x != 0) return;
  t = partial[static_cast<long long>(row) * parts];
  for (int p = 1; p < parts; p++) merge(t, partial[static_cast<long long>(row) * parts + p], d.scale);
  const bool bad = t.bad || t.at == v;
  const int id = d.greedy ? t.at : t.id;
  out[row] = bad ? -1 : id;
  out[rows + row] = bad ? 0 : static_cast<int>(float_to_bits(static_cast<float>((static_cast<double>(z[id]) - t.top) * d.scale - log(t.sum))));
  out[2 * rows + row] = all ? 0 : cut.count;
}

// The row of sample_cut_f32, and the amounts by which its tokens count: 1, or exp((z - top)·scale) in units of 2⁻⁴⁴.
struct Head {
  const float *z;
  int v;
  float top, scale;
  bool weighted;
};

OM_DEVICE unsigned long long amount(const Head &r, float z) {
  return r.weighted ? static_cast<unsigned long long>(static_cast<double>(expf((z - r.top) * r.scale)) * 17592186044416.0) : 1;
}

// Reduces c to the fewest largest logits whose amounts reach a share of their sum or, if share is 0, the number `most`. Of equal
// logits the lowest ids remain. The threshold is found digit by digit, from the amounts of the tokens with each value of a digit.
OM_DEVICE void keep_head(const Head &r, Cut &c, double share, unsigned long long most) {
  __shared__ unsigned long long amounts[256], total, target, held;
  __shared__ unsigned prefix;
  __shared__ int counts[kCutThreads], last;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < r.v; i += blockDim.x)
    if (keeps(c, r.z[i], i)) mine += amount(r, r.z[i]);
  atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) {
    target = share > 0 ? static_cast<unsigned long long>(ceil(share * static_cast<double>(total))) : most;
    if (target == 0) target = 1;
    held = 0;
    prefix = 0;
  }
  __syncthreads();
  const bool whole = total < target;
  __syncthreads();
  if (whole) return;
  unsigned mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) amounts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < r.v; i += blockDim.x) {
      const unsigned k = order_key(r.z[i]);
      if ((k & mask) == prefix && keeps(c, r.z[i], i)) atomicAdd(&amounts[k >> shift & 255], amount(r, r.z[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (digit > 0 && held + amounts[digit] < target) held += amounts[digit--];
      prefix |= static_cast<unsigned>(digit) << shift;
    }
    mask |= 255u << shift;
    __syncthreads();
  }
  // The tokens with the key prefix have the sum held + amounts[…] of the last digit; as many of them as reach the target remain.
  const unsigned edge = prefix;
  const unsigned long long each = amount(r, bits_to_float(edge ^ (edge >> 31 ? 0x80000000u : 0xffffffffu)));
  const unsigned long long ties = amounts[edge & 255] / each, keep = (target - held + each - 1) / each;
  const int limit = edge == c.edge ? c.last : r.v;
  if (keep >= ties) {
    c.edge = edge;
    c.last = limit;
    __syncthreads();
    return;
  }
  // Each thread counts the ties of a contiguous range of ids; the range that has the last one to keep is searched again.
  const int length = (r.v + blockDim.x - 1) / blockDim.x, begin = min(static_cast<int>(threadIdx.x) * length, r.v), end = min(begin + length, r.v);
  int here = 0;
  for (int i = begin; i < end; i++) here += i <= limit && order_key(r.z[i]) == edge;
  counts[threadIdx.x] = here;
  __syncthreads();
  long long before = 0;
  for (unsigned i = 0; i < threadIdx.x; i++) before += counts[i];
  const long long want = static_cast<long long>(keep);
  if (before < want && before + here >= want)
    for (int i = begin; i < end; i++)
      if (order_key(r.z[i]) == edge && ++before == want) last = i;
  __syncthreads();
  c.edge = edge;
  c.last = last;
  __syncthreads();
}

// One block a row: finds the tokens that top-k and then top-p keep.
OM_KERNEL sample_cut_f32(const float *logits, const int *draws, Cut *cuts, int v) {
  __shared__ unsigned top;
  __shared__ int count;
  const int row = blockIdx.x;
  const Draw d = draw_of(draws, row);
  Cut c{kLeastKey, v, 0, 0};
  if (d.greedy || (d.top_k <= 0 && d.top_p >= 1)) {
    if (threadIdx.x == 0) cuts[row] = c;
    return;
  }
  const float *z = logits + static_cast<long long>(row) * v;
  if (threadIdx.x == 0) top = count = 0;
  __syncthreads();
  unsigned largest = 0;
  for (int i = threadIdx.x; i < v; i += blockDim.x) {
    const unsigned k = order_key(z[i]);
    if (k > largest) largest = k;
  }
  atomicMax(&top, largest);
  __syncthreads();
  // A row with a NaN or +inf, or without a finite logit, has no distribution, which sample_f32 reports.
  if (top < kLeastKey || top >= 0xff800000u) {
    if (threadIdx.x == 0) cuts[row] = c;
    return;
  }
  const unsigned u = top ^ 0x80000000u, n = ~top;
  Head r{z, v, bits_to_float(top >> 31 ? u : n), static_cast<float>(d.scale), false};
  if (d.top_k > 0) keep_head(r, c, 0, d.top_k);
  r.weighted = true;
  if (d.top_p < 1) keep_head(r, c, d.top_p, 0);
  int mine = 0;
  for (int i = threadIdx.x; i < v; i += blockDim.x) mine += keeps(c, z[i], i);
  atomicAdd(&count, mine);
  __syncthreads();
  if (threadIdx.x != 0) return;
  c.count = count == v ? 0 : count;
  cuts[row] = c;
}

// One block a row: writes the kept tokens of the rows, ascending in each row, one row after another.
OM_KERNEL sample_kept_f32(const float *logits, const Cut *cuts, int *kept, int v) {
  __shared__ int counts[kCutThreads];
  const int row = blockIdx.x;
  const Cut c = cuts[row];
  if (c.count == 0) return;
  const float *z = logits + static_cast<long long>(row) * v;
  const int length = (v + blockDim.x - 1) / blockDim.x, begin = min(static_cast<int>(threadIdx.x) * length, v), end = min(begin + length, v);
  int here = 0;
  for (int i = begin; i < end; i++) here += keeps(c, z[i], i);
  counts[threadIdx.x] = here;
  __syncthreads();
  long long at = 0;
  for (int r = 0; r < row; r++) at += cuts[r].count;
  for (unsigned i = 0; i < threadIdx.x; i++) at += counts[i];
  for (int i = begin; i < end; i++)
    if (keeps(c, z[i], i)) kept[at++] = i;
}
