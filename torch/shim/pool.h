// Parallel regions of the CPU kernels. The calling thread and the workers of its pool take the chunks of a region one by one. At the end
// the caller waits for chunks that workers have taken, not for workers that have none. With OpenMP the caller waits for all threads, and
// on a machine that other processes use too, each of them can be without a CPU for milliseconds.
#pragma once

#include <ATen/Parallel.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>

namespace om {

// share_out calls f(i) for 0 … n-1 on up to at::get_num_threads() threads. A thread that has finished a call takes the next i, so the
// largest task should come first. If a call throws, calls that have not begun are omitted, and share_out throws the exception. Inside
// another region the calls are sequential; a single call is no region.
void share_out(int64_t n, c10::function_ref<void(int64_t)> f);

// parallel_for calls f(b, e) for parts of [begin, end), as share_out does. grain is the number of items that are worth a second thread.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F &f) {
  const int64_t n = end - begin, threads = at::get_num_threads();
  if (n <= 0) return;
  if (n <= grain || threads == 1) {
    f(begin, end);
    return;
  }
  // Each chunk is 1 / (2 · threads) of what is left, and at least `least` items, except the last. Long chunks read memory in long streams; short
  // ones at the end let the threads finish together.
  const int64_t least = std::max(n / (16 * threads), (grain + 3) / 4);
  c10::SmallVector<int64_t, 64> bounds{begin};
  while (bounds.back() < end) bounds.push_back(std::min(end, bounds.back() + std::max(least, (end - bounds.back()) / (2 * threads))));
  share_out(static_cast<int64_t>(bounds.size()) - 1, [&](int64_t i) { f(bounds[i], bounds[i + 1]); });
}

}  // namespace om
