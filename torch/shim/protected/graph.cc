#include "graph.h"

#include <c10/util/Exception.h>

namespace om {
namespace {

thread_local ProtectedGraph *current = nullptr;

// A tensor on the memory of t that does not keep it allocated.
at::Tensor by_address(const at::Tensor &t) {
  void *base = t.storage().mutable_data();
  c10::Storage storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(), c10::DataPtr(base, t.device()), nullptr, false);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  return out;
}

}  // namespace

ProtectedGraph *ProtectedGraph::recording() { return current; }

void ProtectedGraph::begin() {
  TORCH_CHECK(current == nullptr, "a recording of a graph inside another");
  first_ = last_allocation() + 1;
  current = this;
}

void ProtectedGraph::end() { current = nullptr; }

at::Tensor ProtectedGraph::hold(const at::Tensor &t) {
  if (!t.defined()) return t;
  if (t.is_cpu()) {
    TORCH_CHECK(t.dim() == 0, "an operation on a tensor of the host cannot be recorded in a graph");
    return t;
  }
  const void *base = t.storage().data();
  const uint64_t n = allocation_at(base);
  if (base == nullptr || n >= first_) return t;
  outside_.push_back({base, n});
  return by_address(t);
}

void ProtectedGraph::launch() {
  for (const Outside &o : outside_)
    TORCH_CHECK(allocation_at(o.address) == o.allocation, "a graph was launched after memory that it uses was freed");
  as_operation("graph", [this] {
    for (const auto &f : operations_) f();
  });
}

}  // namespace om

extern "C" om::DeviceGraph *om_new_device_graph(at::Device) { return new om::ProtectedGraph; }
