#include "kernels.h"

#include <c10/util/Exception.h>
#include <math.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace om {
namespace {

#include "../cuda/decode.cu"
#include "../cuda/dropout.cu"
#include "../cuda/layers.cu"
#include "../cuda/logprobs.cu"
#include "../cuda/many.cu"

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

#define OM_BOTH(name) {#name "_f32", kernel<name##_f32>}, {#name "_bf16", kernel<name##_bf16>}

const std::unordered_map<std::string, Kernel> kernels = {
    OM_BOTH(rmsnorm), OM_BOTH(rmsnorm_backward), OM_BOTH(rope),        OM_BOTH(swiglu),
    OM_BOTH(swiglu_backward), OM_BOTH(heads), OM_BOTH(heads_backward), OM_BOTH(rope_write), OM_BOTH(attention),  OM_BOTH(adamw), OM_BOTH(squares), OM_BOTH(widen), OM_BOTH(narrow), OM_BOTH(dropout),
    OM_BOTH(softmax_backward), {"softmax_f32", kernel<softmax_f32>}, {"softmax_keep_f32", kernel<softmax_keep_f32>},
};

}  // namespace

void run_serially(const char *name, const unsigned grid[3], void **args) {
  const auto it = kernels.find(name);
  TORCH_CHECK(it != kernels.end(), "there is no kernel ", name);
  gridDim = {grid[0], grid[1], grid[2]};
  for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) it->second(args);
}

}  // namespace om
