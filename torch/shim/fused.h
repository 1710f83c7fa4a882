// What the fused operations share: which tensors their own kernels take, and how work is cut into pieces.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fused_vec.h"
#include "internal.h"

namespace om {

// has_kernel tells whether t is on the CPU and of a type that the kernels are written for.
inline bool has_kernel(const at::Tensor &t) {
  const auto s = t.scalar_type();
  return t.device().is_cpu() && (s == at::kFloat || s == at::kDouble || s == at::kBFloat16);
}

// The type that values of type t are computed in.
inline at::ScalarType compute_type(at::ScalarType t) { return t == at::kDouble ? at::kDouble : at::kFloat; }

// wants_grad tells whether an operation on these tensors is to be recorded.
template <class... Ts>
bool wants_grad(const Ts &...ts) {
  return at::GradMode::is_enabled() && ((ts.defined() && ts.requires_grad()) || ...);
}

// The least number of items worth a thread when one costs about `each` elements.
inline int64_t grain(int64_t each) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, each)); }

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// OM_DISPATCH runs the lambda with scalar_t set to the element type, one that has_kernel accepts.
#define OM_DISPATCH(type, name, ...) AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, name, __VA_ARGS__)

}  // namespace om
