// Shared by the fused operations: the tensors that their kernels support, and the division of work among threads.
#pragma once

#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fused_vec.h"
#include "internal.h"
#include "pool.h"

namespace om {

// kernels_on reports whether the CPU kernels may be used. Without them every operation computes with ATen's operations.
inline bool kernels_on() { return cpu_level() >= 0; }

// has_kernel reports whether t is on the CPU and has a type that the kernels support, and kernels_on.
inline bool has_kernel(const at::Tensor &t) {
  const auto s = t.scalar_type();
  return t.device().is_cpu() && kernels_on() && (s == at::kFloat || s == at::kDouble || s == at::kBFloat16);
}

// same_device fails unless the defined tensors among ts are on x's device. A kernel reads host memory without asking, so a tensor
// of another device would end the process.
template <class... Ts>
void same_device(const char *operation, const at::Tensor &x, const Ts &...ts) {
  auto check = [&](const at::Tensor &t) {
    TORCH_CHECK(!t.defined() || t.device() == x.device(), operation, ": the operands are on ", x.device(), " and ", t.device());
  };
  (check(ts), ...);
}

// compute_type returns the type in which the kernels compute values of type t.
inline at::ScalarType compute_type(at::ScalarType t) { return t == at::kDouble ? at::kDouble : at::kFloat; }

// wants_grad reports whether an operation on these tensors is recorded for autograd.
template <class... Ts>
bool wants_grad(const Ts &...ts) {
  return at::GradMode::is_enabled() && ((ts.defined() && ts.requires_grad()) || ...);
}

// grain returns the minimum number of items per thread, if an item has about `each` elements.
inline int64_t grain(int64_t each) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, each)); }

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The rotation of om_rope_heads (fused_rope.cc), and the check of its operands.
at::Tensor rope(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin);
void check_rope(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin);

// The rotation of single tokens of q [N,H,Dh] on the CPU, without gradients. cos and sin are contiguous and of the type in which the
// kernels compute.
class RopeTokens {
 public:
  RopeTokens(const at::Tensor &q, const at::Tensor &cos, const at::Tensor &sin);
  void operator()(int64_t token, void *out) const;  // out [H,Dh] of q's type

 private:
  at::Tensor q_, cos_, sin_;
};

// om_linear (fused_linear.cc): x [...,I] · wᵀ + bias for w [O,I]; bias [O] may be undefined.
at::Tensor linear(const at::Tensor &x, const at::Tensor &w, const at::Tensor &bias);

// om_rmsnorm (fused_rmsnorm.cc).
at::Tensor rmsnorm(const at::Tensor &x, const at::Tensor &w, double eps);

// The float32 logits of om_logits for bfloat16 operands, with the kernels of om_linear_skinny.
at::Tensor logits_skinny(const at::Tensor &hidden, const at::Tensor &weight, const at::Tensor &bias);

// OM_DISPATCH runs the lambda with scalar_t as the element type, which has_kernel must accept.
#define OM_DISPATCH(type, name, ...) AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, name, __VA_ARGS__)

}  // namespace om
