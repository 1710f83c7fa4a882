#include "fused_vec.h"

#include <algorithm>
#include <atomic>

#include "fused_amx.h"
#include "openmanus_torch.h"

namespace om {

static int detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return !__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni") ? 2 : amx_usable() ? 4 : 3;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

static std::atomic<int> limit{4};

int cpu_level() {
  static const int detected = detect();
  return std::min(detected, limit.load(std::memory_order_relaxed));
}

void set_cpu_level_limit(int level) { limit.store(level, std::memory_order_relaxed); }

}  // namespace om

int64_t om_cpu_level(void) { return om::cpu_level(); }

void om_set_cpu_level_limit(int64_t level) { om::set_cpu_level_limit(static_cast<int>(level)); }
