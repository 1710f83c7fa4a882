// Backward functions that write gradients of parameters in place: on a GPU one operation adds a product to a gradient, where autograd
// would compute the product and add it in a second one.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <vector>

namespace om {

// accumulates reports whether backward functions add to the gradient of w themselves: w is a trained parameter.
inline bool accumulates(const at::Tensor &w) { return w.defined() && w.requires_grad() && w.is_leaf(); }

// Inside it, views are ordinary tensors for autograd.
using Untracked = at::AutoDispatchBelowADInplaceOrView;

// joined returns ts as one tensor, whose first dimension has their sum, if they are contiguous and lie one after another in a
// storage. Otherwise the result is undefined.
inline at::Tensor joined(const std::vector<at::Tensor> &ts) {
  const at::Tensor &first = ts[0];
  int64_t rows = 0, next = first.defined() ? first.storage_offset() : 0;
  for (const at::Tensor &t : ts) {
    if (!t.defined() || !t.is_contiguous() || t.dim() != first.dim() || t.scalar_type() != first.scalar_type() ||
        t.storage().unsafeGetStorageImpl() != first.storage().unsafeGetStorageImpl() || t.storage_offset() != next ||
        t.sizes().slice(1) != first.sizes().slice(1))
      return {};
    rows += t.size(0);
    next += t.numel();
  }
  if (ts.size() == 1) return first;
  const Untracked guard;
  std::vector<int64_t> sizes = first.sizes().vec();
  sizes[0] = rows;
  return first.as_strided(sizes, first.strides(), first.storage_offset());
}

// columns returns the matrices ts [N,O_i] side by side as [N, ΣO_i], without a copy if they are parts of the same rows.
inline at::Tensor columns(const std::vector<at::Tensor> &ts) {
  const at::Tensor &first = ts[0];
  int64_t width = 0, next = first.storage_offset();
  bool adjacent = true;
  for (const at::Tensor &t : ts) {
    adjacent = adjacent && t.storage().unsafeGetStorageImpl() == first.storage().unsafeGetStorageImpl() && t.storage_offset() == next &&
               t.stride(1) == 1 && t.stride(0) == first.stride(0);
    width += t.size(1);
    next += t.size(1);
  }
  if (ts.size() == 1) return first;
  if (!adjacent || first.stride(0) != width) return at::cat(ts, 1);
  const Untracked guard;
  return first.as_strided({first.size(0), width}, {width, 1}, first.storage_offset());
}

// parts splits t along dim into parts of the given sizes, which are ordinary tensors for autograd.
inline std::vector<at::Tensor> parts(const at::Tensor &t, int64_t dim, const std::vector<int64_t> &sizes) {
  const Untracked guard;
  std::vector<at::Tensor> out;
  int64_t at = 0;
  for (const int64_t n : sizes) {
    out.push_back(t.narrow(dim, at, n));
    at += n;
  }
  return out;
}

// Gradient is the place where a kernel writes the gradient of w: the gradient that w has, to which the kernel adds, or a new tensor.
struct Gradient {
  at::Tensor target;  // undefined if w needs no gradient
  bool add = false;

  explicit Gradient(const at::Tensor &w) {
    if (!w.defined() || !w.requires_grad()) return;
    if (accumulates(w)) target = w.grad();
    add = target.defined() && target.scalar_type() == w.scalar_type() && target.is_contiguous();
    if (!add) target = at::empty_like(w);
  }

  // result returns the gradient that a backward function returns for w: undefined if target became w's gradient.
  at::Tensor result(const at::Tensor &w) const {
    if (!target.defined() || add) return {};
    if (!accumulates(w) || w.grad().defined()) return target;
    w.mutable_grad() = target;
    return {};
  }
};

// add_gradients adds to the gradients of ws, joined along their first dimension: make() returns what is added, add(g) adds it to g.
template <class Make, class Add>
void add_gradients(const std::vector<at::Tensor> &ws, const Make &make, const Add &add) {
  std::vector<at::Tensor> grads;
  std::vector<int64_t> rows;
  bool fresh = true;
  for (const at::Tensor &w : ws) {
    grads.push_back(w.grad());
    rows.push_back(w.size(0));
    fresh = fresh && !w.grad().defined();
  }
  const at::Tensor sum = joined(grads);
  if (sum.defined()) {
    add(sum);
    return;
  }
  const std::vector<at::Tensor> made = ws.size() == 1 ? std::vector<at::Tensor>{make()} : parts(make(), 0, rows);
  for (size_t i = 0; i < ws.size(); i++) {
    at::Tensor &g = ws[i].mutable_grad();
    if (fresh || !g.defined())
      g = made[i];
    else
      g.add_(made[i]);
  }
}

}  // namespace om
