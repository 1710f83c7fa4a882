// Generation against a paged key-value cache [blocks, blockSize, Hkv, Dh]: writing new keys and values, and the attention of new
// tokens. Token n has a context of lens[n] tokens, itself included, in blocks[starts[n]], blocks[starts[n] + 1], ….
#include "common.h"
#include "rotate.h"

constexpr int kPart = 512;      // keys of a part of a context, which one block of threads processes
constexpr int kMaxDim = 256;    // largest Dh
constexpr int kMaxWarps = 4;
constexpr float kLowest = -3e38f;  // below every score

// One block a token: rotates its query heads q [Hq, 2·half] to out and its key heads k [Hkv, 2·half] to the token's slot of kc, by
// the angles of its position in the tables cos and sin [positions, half], and copies its values v to the slot of vc. All are
// contiguous. qw and kw are the norms of the heads before the rotation; null is no norm.
template <class T>
OM_DEVICE void rope_write_token(const T *q, const T *k, const T *v, const T *qw, const T *kw, float q_eps, float k_eps,
                                const float *cos, const float *sin, T *out, T *kc, T *vc, const int *positions, const int *slots,
                                int heads, int kv_heads, int half) {
  const long long t = blockIdx.x, width = static_cast<long long>(kv_heads) * half * 2, slot = slots[t];
  cos += static_cast<long long>(positions[t]) * half;
  sin += static_cast<long long>(positions[t]) * half;
  turn_heads(q + t * heads * half * 2, qw, q_eps, cos, sin, out + t * heads * half * 2, heads, half);
  turn_heads(k + t * width, kw, k_eps, cos, sin, kc + slot * width, kv_heads, half);
  for (int i = threadIdx.x; i < width; i += blockDim.x) vc[slot * width + i] = v[t * width + i];
}

// The state of an online softmax (arXiv:1805.02867): the largest score, Σ exp(score - top), and the lane's part of
// Σ exp(score - top)·v.
struct Softmax {
  float top, sum, acc[kMaxDim / kLanes];
};

OM_DEVICE void start(Softmax &s) {
  s.top = kLowest;
  s.sum = 0;
  for (int i = 0; i < kMaxDim / kLanes; i++) s.acc[i] = 0;
}

// One block a (token of tokens [F], key head and chunk of its query heads, part of the context). q is [N, Hq, Dh], contiguous. A
// warp processes every kMaxWarps-th key; the warps are combined in shared memory, and the parts, in order, by the block that
// finishes last. partial is [F, Hq, parts, Dh + 2], counters [F, Hkv·chunks] is 0 before and after. The result of a token depends
// on its own context only.
template <class T>
OM_DEVICE void attend(const T *q, const T *kc, const T *vc, const int *tokens, const int *lens, const int *starts,
                      const int *blocks, T *out, float *partial, int *counters, int heads, int kv_heads, int dim, int block_size,
                      int group, float scale) {
  __shared__ float shared[kMaxWarps][kMaxDim + 2];
  const int n = tokens[blockIdx.x], part = blockIdx.z, parts = gridDim.z;
  const int per_head = heads / kv_heads, chunks = (per_head + group - 1) / group;
  const int kv = blockIdx.y / chunks, first = kv * per_head + blockIdx.y % chunks * group;
  const int here = min(group, (kv + 1) * per_head - first);
  const int len = lens[n], begin = part * kPart, end = min(begin + kPart, len);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const int mine = (dim + kLanes - 1) / kLanes;  // elements of a head that a lane has: lane, lane + kLanes, …
  const int *table = blocks + starts[n];
  const int used = (len + kPart - 1) / kPart;  // parts of this token; the others have no keys
  float *rows = partial + (static_cast<long long>(blockIdx.x) * heads + first) * parts * (dim + 2);

  for (int g = 0; g < here && begin < end; g++) {
    const T *qh = q + (static_cast<long long>(n) * heads + first + g) * dim;
    float x[kMaxDim / kLanes];
    for (int i = 0; i < mine; i++) x[i] = lane + i * kLanes < dim ? load(qh + lane + i * kLanes) * scale : 0;
    Softmax s;
    start(s);
    for (int p = begin + warp; p < end; p += warps) {
      const long long at = ((static_cast<long long>(table[p / block_size]) * block_size + p % block_size) * kv_heads + kv) * dim;
      float dot = 0;
      for (int i = 0; i < mine; i++)
        if (lane + i * kLanes < dim) dot += x[i] * load(kc + at + lane + i * kLanes);
      const float score = warp_sum(dot), top = fmaxf(s.top, score);
      const float old = expf(s.top - top), now = expf(score - top);
      s.sum = s.sum * old + now;
      s.top = top;
      for (int i = 0; i < mine; i++)
        if (lane + i * kLanes < dim) s.acc[i] = s.acc[i] * old + now * load(vc + at + lane + i * kLanes);
    }
    __syncthreads();  // the previous head's states were read
    for (int i = 0; i < mine; i++)
      if (lane + i * kLanes < dim) shared[warp][lane + i * kLanes] = s.acc[i];
    if (lane == 0) {
      shared[warp][dim] = s.top;
      shared[warp][dim + 1] = s.sum;
    }
    __syncthreads();
    float top = kLowest, sum = 0;
    for (int w = 0; w < warps; w++) top = fmaxf(top, shared[w][dim]);
    for (int w = 0; w < warps; w++) sum += shared[w][dim + 1] * expf(shared[w][dim] - top);
    float *row = rows + (static_cast<long long>(g) * parts + part) * (dim + 2);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
      float acc = 0;
      for (int w = 0; w < warps; w++) acc += shared[w][i] * expf(shared[w][dim] - top);
      row[i] = acc;
    }
    if (threadIdx.x == 0) {
      row[dim] = top;
      row[dim + 1] = sum;
    }
  }
  if (!last_block(counters + static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y, parts)) return;
  for (int g = 0; g < here; g++) {
    const float *row = rows + static_cast<long long>(g) * parts * (dim + 2);
    float top = kLowest, sum = 0;
    for (int p = 0; p < used; p++) top = fmaxf(top, row[p * (dim + 2) + dim]);
    for (int p = 0; p < used; p++) sum += row[p * (dim + 2) + dim + 1] * expf(row[p * (dim + 2) + dim] - top);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
      float acc = 0;
      for (int p = 0; p < used; p++) acc += row[p * (dim + 2) + i] * expf(row[p * (dim + 2) + dim] - top);
      store(out + (static_cast<long long>(n) * heads + first + g) * dim + i, acc / sum);
    }
  }
}

// One block a (tile of at most kTile consecutive tokens of one sequence, query head), for chunks of many tokens. tiles [t, 2] has the
// first token and the number of tokens of each. The keys pass through shared memory, the largest score and the sums of each token
// are kept there (online softmax).
template <class T>
OM_DEVICE void attend_tile(const T *q, const T *kc, const T *vc, const int *tiles, const int *lens, const int *starts,
                           const int *blocks, T *out, int heads, int kv_heads, int dim, int block_size, float scale) {
  constexpr int kTile = 16, kKeys = 16;
  __shared__ float queries[kTile * kMaxDim], acc[kTile * kMaxDim];
  __shared__ float keys[kKeys * (kMaxDim / 2 + 1)];  // of size keys, or values
  __shared__ float scores[kTile][kKeys], top[kTile], sum[kTile], old[kTile];
  const int first = tiles[2 * blockIdx.x], count = tiles[2 * blockIdx.x + 1], head = blockIdx.y, kv = head / (heads / kv_heads);
  const int width = dim <= kMaxDim / 2 ? kKeys : kKeys / 2;  // keys of a step
  const int stride = dim + (width == kKeys);                 // of a key; odd for most Dh, which spreads the banks
  const int *table = blocks + starts[first];
  const int end = lens[first + count - 1];
  for (int i = threadIdx.x; i < count * dim; i += blockDim.x) {
    queries[i] = load(q + (static_cast<long long>(first + i / dim) * heads + head) * dim + i % dim) * scale;
    acc[i] = 0;
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    top[i] = kLowest;
    sum[i] = 0;
  }
  for (int begin = 0; begin < end; begin += width) {
    const int n = min(width, end - begin);
    // Copies the n keys or values of this step.
    auto fetch = [&](const T *cache) {
      for (int i = threadIdx.x; i < n * dim; i += blockDim.x) {
        const int p = begin + i / dim;
        const long long place = static_cast<long long>(table[p / block_size]) * block_size + p % block_size;
        keys[i / dim * stride + i % dim] = load(cache + (place * kv_heads + kv) * dim + i % dim);
      }
    };
    fetch(kc);
    __syncthreads();
    for (int i = threadIdx.x; i < count * n; i += blockDim.x) {
      const int t = i / n, k = i % n;
      float dot = 0;
      for (int j = 0; j < dim; j++) dot += queries[t * dim + j] * keys[k * stride + j];
      scores[t][k] = begin + k < lens[first + t] ? dot : kLowest;
    }
    __syncthreads();
    fetch(vc);
    for (int t = threadIdx.x; t < count; t += blockDim.x) {
      float now = top[t];
      for (int k = 0; k < n; k++) now = fmaxf(now, scores[t][k]);
      old[t] = expf(top[t] - now);
      top[t] = now;
      float all = sum[t] * old[t];
      for (int k = 0; k < n; k++) {
        scores[t][k] = begin + k < lens[first + t] ? expf(scores[t][k] - now) : 0;
        all += scores[t][k];
      }
      sum[t] = all;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count * dim; i += blockDim.x) {
      const int t = i / dim;
      float a = acc[i] * old[t];
      for (int k = 0; k < n; k++) a += scores[t][k] * keys[k * stride + i % dim];
      acc[i] = a;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < count * dim; i += blockDim.x)
    store(out + (static_cast<long long>(first + i / dim) * heads + head) * dim + i % dim, acc[i] / sum[i / dim]);
}

#define OM_DECODE(T, name)                                                                                              \
  OM_KERNEL rope_write_##name(const T *q, const T *k, const T *v, const T *qw, const T *kw, float q_eps, float k_eps,   \
                              const float *cos, const float *sin, T *out, T *kc, T *vc, const int *positions,           \
                              const int *slots, int heads, int kv_heads, int half) {                                    \
    rope_write_token(q, k, v, qw, kw, q_eps, k_eps, cos, sin, out, kc, vc, positions, slots, heads, kv_heads, half);    \
  }                                                                                                                     \
  OM_KERNEL attention_##name(const T *q, const T *kc, const T *vc, const int *tokens, const int *lens,                  \
                             const int *starts, const int *blocks, T *out, float *partial, int *counters, int heads,    \
                             int kv_heads, int dim, int block_size, int group, float scale) {                           \
    attend(q, kc, vc, tokens, lens, starts, blocks, out, partial, counters, heads, kv_heads, dim, block_size, group,    \
           scale);                                                                                                      \
  }                                                                                                                     \
  OM_KERNEL attention_tile_##name(const T *q, const T *kc, const T *vc, const int *tiles, const int *lens,              \
                                  const int *starts, const int *blocks, T *out, int heads, int kv_heads, int dim,       \
                                  int block_size, float scale) {                                                        \
    attend_tile(q, kc, vc, tiles, lens, starts, blocks, out, heads, kv_heads, dim, block_size, scale);                  \
  }
OM_DECODE(float, f32)
OM_DECODE(bf16, bf16)
