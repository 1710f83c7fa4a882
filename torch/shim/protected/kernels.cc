#include "kernels.h"

#include <c10/util/Exception.h>
#include <math.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace om {
namespace {

// A kernel as a function of pointers to its arguments.
using Kernel = void (*)(void **args);

template <class... A, size_t... I>
void apply(void (*f)(A...), void **args, std::index_sequence<I...>) {
  f(*static_cast<A *>(args[I])...);
}

template <auto f, class... A>
void unpack(void (*)(A...), void **args) {
  apply(f, args, std::index_sequence_for<A...>{});
}

template <auto f>
void kernel(void **args) {
  unpack<f>(f, args);
}

using Kernels = std::unordered_map<std::string, Kernel>;

#define OM_ONE(name) {#name, kernel<name>}
#define OM_BOTH(name) OM_ONE(name##_f32), OM_ONE(name##_bf16)
#define OM_KERNELS                                                                                              \
  {                                                                                                             \
    OM_BOTH(rmsnorm), OM_BOTH(rmsnorm_backward), OM_BOTH(rope), OM_BOTH(heads), OM_BOTH(heads_backward),        \
        OM_BOTH(swiglu), OM_BOTH(swiglu_backward), OM_BOTH(rope_write), OM_BOTH(attention),                     \
        OM_BOTH(attention_tile), OM_BOTH(adamw), OM_BOTH(squares), OM_BOTH(widen), OM_BOTH(narrow),             \
        OM_BOTH(dropout), OM_BOTH(softmax_backward), OM_ONE(softmax_f32), OM_ONE(softmax_keep_f32),             \
        OM_ONE(sample_f32), OM_ONE(sample_cut_f32), OM_ONE(sample_kept_f32),                                    \
  }

// The kernels with one thread a block, which is fast.
namespace one {
#include "../cuda/decode.cu"
#include "../cuda/dropout.cu"
#include "../cuda/layers.cu"
#include "../cuda/logprobs.cu"
#include "../cuda/many.cu"
#include "../cuda/sample.cu"

const Kernels kernels = OM_KERNELS;
}  // namespace one

#undef OM_COMMON_H
#undef OM_ROTATE_H
#undef OM_SERIAL_H
#define OM_FIBERS

// The same kernels with all threads.
namespace many {
#include "../cuda/decode.cu"
#include "../cuda/dropout.cu"
#include "../cuda/layers.cu"
#include "../cuda/logprobs.cu"
#include "../cuda/many.cu"
#include "../cuda/sample.cu"

const Kernels kernels = OM_KERNELS;
#include "fibers.h"
}  // namespace many

Kernel find(const Kernels &kernels, const char *name) {
  const auto it = kernels.find(name);
  TORCH_CHECK(it != kernels.end(), "there is no kernel ", name);
  return it->second;
}

}  // namespace

void run_kernel(const char *name, const unsigned grid[3], unsigned threads, void **args) {
  static const bool all_threads = std::getenv("OPENMANUS_PROTECTED_THREADS") != nullptr;
  const Kernel f = find(all_threads ? many::kernels : one::kernels, name);
  one::gridDim = {grid[0], grid[1], grid[2]};
  many::gridDim = {grid[0], grid[1], grid[2]};
  many::blockDim = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        one::blockIdx = {x, y, z};
        many::blockIdx = {x, y, z};
        if (all_threads)
          many::run_block(f, threads, args);
        else
          f(args);
      }
}

}  // namespace om
