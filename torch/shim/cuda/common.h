// Shared by the kernels. They are CUDA C++ without any header, compiled by NVRTC for GPUs, and as ordinary C++ with serial.h,
// where a block has one thread and a warp one lane, or the threads of a block are fibers, for tests on the CPU. So a kernel is
// correct with any block size that is a multiple of kLanes, and threads talk to each other only through shared memory and the
// functions below.
#ifndef OM_COMMON_H
#define OM_COMMON_H

#ifdef __CUDACC_RTC__
#define OM_KERNEL extern "C" __global__ void
#define OM_DEVICE static __device__ __forceinline__
constexpr int kLanes = 32;
#else
#include "serial.h"
#endif

// A bfloat16 number.
struct bf16 {
  unsigned short bits;
};

OM_DEVICE float bits_to_float(unsigned u) {
  union {
    unsigned u;
    float f;
  } x;
  x.u = u;
  return x.f;
}

OM_DEVICE unsigned float_to_bits(float f) {
  union {
    unsigned u;
    float f;
  } x;
  x.f = f;
  return x.u;
}

OM_DEVICE float load(const float *p) { return *p; }
OM_DEVICE float load(const bf16 *p) { return bits_to_float(static_cast<unsigned>(p->bits) << 16); }

OM_DEVICE void store(float *p, float x) { *p = x; }

// Rounds to the nearest, ties to even, as ATen does.
OM_DEVICE void store(bf16 *p, float x) {
  const unsigned u = float_to_bits(x);
  p->bits = x != x ? 0x7fc0 : static_cast<unsigned short>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// rounded returns x rounded to T.
template <class T>
OM_DEVICE float rounded(float x) {
  T t;
  store(&t, x);
  return load(&t);
}

#ifdef __CUDACC_RTC__

// The sum over the lanes of a warp, in every lane.
OM_DEVICE float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

#endif
#if defined(__CUDACC_RTC__) || defined(OM_FIBERS)

// The sum over the threads of a block, in every thread.
OM_DEVICE float block_sum(float x) {
  __shared__ float part[32];
  x = warp_sum(x);
  __syncthreads();  // the threads have read the sums of the previous call
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x / 32; i++) sum += part[i];
  return sum;
}

// Reports, in every thread, whether this block is the last of n blocks that count themselves in *counter, which is 0 before and
// after. The last block sees what the others wrote.
OM_DEVICE bool last_block(int *counter, int n) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) == n - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

#endif
#endif
