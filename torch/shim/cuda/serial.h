// The words of CUDA C++ that the kernels use, for a C++ compiler. By default a block has one thread and a warp one lane. With
// OM_FIBERS a block has as many threads as were asked for, see ../protected/fibers.h, and a warp 32 lanes.
#ifndef OM_SERIAL_H
#define OM_SERIAL_H

#include <algorithm>
#include <math.h>

#define OM_KERNEL static void
#define OM_DEVICE static inline
#define __shared__ static thread_local

struct Index {
  unsigned x, y, z;
};

// The place of the running block in the grid, and the sizes.
static thread_local Index blockIdx, gridDim;

using std::min;
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

// Threads of a block run one at a time, so plain additions are atomic.
template <class T, class U>
static inline T atomicAdd(T *p, U x) {
  const T old = *p;
  *p += x;
  return old;
}

static inline unsigned atomicMax(unsigned *p, unsigned x) {
  const unsigned old = *p;
  *p = std::max(old, x);
  return old;
}

#ifdef OM_FIBERS

constexpr int kLanes = 32;
static thread_local Index threadIdx, blockDim;
static inline void __threadfence() {}
static void __syncthreads();
static float warp_sum(float x);

#else

constexpr int kLanes = 1;
constexpr Index threadIdx{0, 0, 0}, blockDim{1, 1, 1};
static inline void __syncthreads() {}

static inline float warp_sum(float x) { return x; }
static inline float block_sum(float x) { return x; }

static inline bool last_block(int *counter, int n) {
  if (++*counter < n) return false;
  *counter = 0;
  return true;
}

#endif

#endif
