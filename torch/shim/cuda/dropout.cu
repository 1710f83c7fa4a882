// Dropout with the draws of Go's rand.PCG (torch/dropout.go): element i of a sequence takes 16 bits of number i / 4. The generator is a
// linear congruential one of 128 bits, which can jump ahead, with the output function DXSM (O'Neill, HMC-CS-2014-0905).
#include "common.h"

struct Wide {
  unsigned long long hi, lo;
};

OM_DEVICE Wide multiply(Wide a, Wide b) {
#ifdef __CUDACC_RTC__
  const unsigned long long carry = __umul64hi(a.lo, b.lo);
#else
  const unsigned long long carry = static_cast<unsigned long long>(static_cast<unsigned __int128>(a.lo) * b.lo >> 64);
#endif
  return {carry + a.hi * b.lo + a.lo * b.hi, a.lo * b.lo};
}

OM_DEVICE Wide plus(Wide a, Wide b) {
  const unsigned long long lo = a.lo + b.lo;
  return {a.hi + b.hi + (lo < a.lo), lo};
}

// The state of the generator after n more numbers.
OM_DEVICE Wide jump(Wide state, unsigned long long n) {
  Wide factor{0, 1}, term{0, 0};  // state · factor + term
  Wide f{2549297995355413924ull, 4865540595714422341ull}, t{6364136223846793005ull, 1442695040888963407ull};
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) {
      factor = multiply(factor, f);
      term = plus(multiply(term, f), t);
    }
    t = multiply(plus(f, {0, 1}), t);
    f = multiply(f, f);
  }
  return plus(multiply(state, factor), term);
}

OM_DEVICE unsigned long long output(Wide state) {
  unsigned long long x = state.hi;
  x ^= x >> 32;
  x *= 0xda942042e4dd58b5ull;
  x ^= x >> 48;
  return x * (state.lo | 1);
}

constexpr int kDropoutRun = 128;  // consecutive elements of a thread

// y = x · scale where the draw is at least limit, else 0, for rows of `width` elements. Sequence s has the key keys[s] and the rows
// offsets[s] … offsets[s+1]-1.
template <class T>
OM_DEVICE void dropout_runs(const T *x, T *y, const long long *keys, const long long *offsets, int sequences, long long width,
                            long long index, int limit, float scale, long long elements) {
  const long long runs = (elements + kDropoutRun - 1) / kDropoutRun;
  for (long long run = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; run < runs;
       run += static_cast<long long>(gridDim.x) * blockDim.x) {
    long long i = run * kDropoutRun;
    const long long end = min(i + kDropoutRun, elements);
    int low = 0, high = sequences - 1;  // the last sequence that begins at or before i
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (offsets[middle] * width <= i)
        low = middle;
      else
        high = middle - 1;
    }
    for (int s = low; i < end; s++) {
      const long long begin = offsets[s] * width, stop = min(end, offsets[s + 1] * width);
      if (i >= stop) continue;
      Wide state = jump({static_cast<unsigned long long>(keys[s]), static_cast<unsigned long long>(index)},
                        static_cast<unsigned long long>((i - begin) / 4) + 1);
      unsigned long long bits = output(state) >> (i - begin) % 4 * 16;
      for (; i < stop; i++, bits >>= 16) {
        if ((i - begin) % 4 == 0 && i != run * kDropoutRun && i != begin) {
          state = jump(state, 1);
          bits = output(state);
        }
        store(y + i, static_cast<int>(bits & 0xffff) >= limit ? load(x + i) * scale : 0.0f);
      }
    }
  }
}

#define OM_DROPOUT(T, name)                                                                                                 \
  OM_KERNEL dropout_##name(const T *x, T *y, const long long *keys, const long long *offsets, int sequences,                \
                           long long width, long long index, int limit, float scale, long long elements) {                  \
    dropout_runs(x, y, keys, offsets, sequences, width, index, limit, scale, elements);                                     \
  }
OM_DROPOUT(float, f32)
OM_DROPOUT(bf16, bf16)
