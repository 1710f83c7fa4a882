// A device for tests: it stands for a GPU on a machine without one. It computes on the CPU, but its memory is inaccessible
// except while one of its operations runs, so host code that reads or writes a device tensor directly ends with SIGSEGV. It
// counts the operations and the transfers, which on a GPU are kernel launches and, for a transfer to the host, a wait for all
// work that was submitted before.
//
// It is libtorch's PrivateUse1 device. at::native::cpu_fallback computes every operation on copies of its operands.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "../gpu.h"
#include "attention.h"
#include "graph.h"
#include "kernels.h"
#include "openmanus_torch.h"

namespace {

constexpr at::DeviceType kType = at::kPrivateUse1;

std::atomic<int64_t> operations{0}, uploads{0}, downloads{0};

// The number of operations that run on this thread. Copies that the fallback makes inside an operation are not transfers.
thread_local int inside = 0;

struct Inside {
  Inside() { inside++; }
  ~Inside() { inside--; }
};

// The graph that this thread records, unless it computes an operation.
om::ProtectedGraph *recording() { return inside == 0 ? om::ProtectedGraph::recording() : nullptr; }

void transfer(std::atomic<int64_t> &what) {
  TORCH_CHECK(recording() == nullptr, "a copy from or to the host cannot be recorded in a graph");
  if (inside == 0) what++;
}

// The names of the operations since the start of a trace, each followed by a newline.
struct Trace {
  std::mutex mu;
  bool on = false;
  std::string names;
};

Trace &trace() {
  static auto *t = new Trace;
  return *t;
}

void operation(const char *name) {
  if (inside > 0) return;
  TORCH_CHECK(recording() == nullptr, name, " cannot be recorded in a graph");
  operations++;
  Trace &t = trace();
  std::lock_guard<std::mutex> lock(t.mu);
  if (t.on) t.names.append(name) += '\n';
}

// ---------------------------------------------------------------- memory

size_t whole_pages(size_t n) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (n + page - 1) / page * page;
}

// The size of the device's memory, 16 GiB or OPENMANUS_PROTECTED_BYTES.
size_t capacity() {
  static const size_t n = [] {
    const char *s = std::getenv("OPENMANUS_PROTECTED_BYTES");
    return s == nullptr ? size_t{16} << 30 : static_cast<size_t>(std::strtoull(s, nullptr, 10));
  }();
  return n;
}

// The allocations, and the number of guards that hold each open. Autograd computes on a second thread.
class Memory {
 public:
  void *allocate(size_t n) {
    n = whole_pages(n);
    std::lock_guard<std::mutex> lock(mu_);
    TORCH_CHECK_WITH(OutOfMemoryError, used_ + n <= capacity(), "out of memory: tried to allocate ", n, " bytes, ",
                     capacity() - used_, " of ", capacity(), " are free");
    void *p = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, p != MAP_FAILED, "out of memory: mmap failed for ", n, " bytes");
    blocks_[p] = {n, 0, ++allocations_};
    used_ += n;
    peak_ = std::max(peak_, used_);
    return p;
  }

  void release(void *p) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = blocks_.find(p);
    munmap(p, it->second.bytes);
    used_ -= it->second.bytes;
    blocks_.erase(it);
  }

  // The number of the allocation that begins at p, 0 if there is none, and of the latest allocation.
  std::pair<uint64_t, uint64_t> number(const void *p) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = blocks_.find(const_cast<void *>(p));
    return {it == blocks_.end() ? 0 : it->second.number, allocations_};
  }

  // used returns the bytes that are allocated, and the largest number since reset_peak.
  std::pair<size_t, size_t> used() {
    std::lock_guard<std::mutex> lock(mu_);
    return {used_, peak_};
  }

  void reset_peak() {
    std::lock_guard<std::mutex> lock(mu_);
    peak_ = used_;
  }

  // change opens the allocation that begins at p for one more (by = 1) or one less (by = -1) guard.
  void change(void *p, int by) {
    std::lock_guard<std::mutex> lock(mu_);
    Block &b = blocks_.at(p);
    const bool was = b.guards > 0;
    b.guards += by;
    if (was == (b.guards > 0)) return;
    const int rights = was ? PROT_NONE : PROT_READ | PROT_WRITE;
    TORCH_CHECK(mprotect(p, b.bytes, rights) == 0, "the protected device cannot change the rights of its memory");
  }

 private:
  struct Block {
    size_t bytes;
    int guards;
    uint64_t number;  // of the allocation, counted from 1
  };
  std::mutex mu_;
  std::map<void *, Block> blocks_;
  size_t used_ = 0, peak_ = 0;
  uint64_t allocations_ = 0;
};

Memory &memory() {
  static Memory *m = new Memory;  // never destroyed: tensors may be freed while the process ends
  return *m;
}

struct Allocator final : c10::DeviceAllocator {
  at::DataPtr allocate(size_t n) override {
    const at::Device d(kType, 0);
    if (n == 0) return {nullptr, nullptr, nullptr, d};
    void *p = memory().allocate(n);
    return {p, p, [](void *q) { memory().release(q); }, d};
  }
  at::DeleterFnPtr raw_deleter() const override {
    return [](void *q) { memory().release(q); };
  }
  void copy_data(void *to, const void *from, std::size_t n) const override { default_copy_data(to, from, n); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const at::DataPtr &, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(at::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats s;
    const auto [used, peak] = memory().used();
    auto &all = s.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    all.current = static_cast<int64_t>(used);
    all.peak = static_cast<int64_t>(peak);
    return s;
  }
  void resetAccumulatedStats(at::DeviceIndex) override {}
  void resetPeakStats(at::DeviceIndex) override { memory().reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(at::DeviceIndex) override {
    return {capacity() - memory().used().first, capacity()};
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator);

// While it lives, the memory of t is open, and cpu is a CPU tensor on the same memory.
class Open {
 public:
  explicit Open(const at::Tensor &t) {
    if (t.device().type() != kType) {
      cpu = t;
      return;
    }
    base_ = t.storage().mutable_data();
    if (base_ != nullptr) memory().change(base_, 1);
    char *begin = static_cast<char *>(base_) + t.storage_offset() * static_cast<int64_t>(t.element_size());
    cpu = at::from_blob(base_ == nullptr ? nullptr : begin, t.sizes(), t.strides(),
                        at::TensorOptions().dtype(t.scalar_type()).device(at::kCPU));
  }
  ~Open() {
    if (base_ != nullptr) memory().change(base_, -1);
  }
  Open(const Open &) = delete;
  Open &operator=(const Open &) = delete;
  at::Tensor cpu;

 private:
  void *base_ = nullptr;
};

// ---------------------------------------------------------------- operations

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

// Copies elements, in the memory of the device or of the host.
void copy_elements(const at::Tensor &from, const at::Tensor &to) {
  const Open a(from), b(to);
  at::Tensor out = b.cpu;
  out.copy_(a.cpu);
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool) {
  const bool source = from.device().type() == kType, target = to.device().type() == kType;
  if (!source || !target) {
    transfer(source ? downloads : uploads);
  } else if (om::ProtectedGraph *g = recording()) {
    g->add([a = g->hold(from), b = g->hold(to)] { copy_elements(a, b); });
    return to;
  } else {
    operation("copy");
  }
  copy_elements(from, to);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor &t) {
  transfer(downloads);
  return Open(t).cpu.item();
}

// A product with sums of another type than the operands', which a GPU has and the CPU not.
at::Tensor mm_dtype(const at::Tensor &a, const at::Tensor &b, at::ScalarType type) {
  const auto product = [type](const at::Tensor &a, const at::Tensor &b) {
    const Inside i;
    return a.to(type).mm(b.to(type));
  };
  if (om::ProtectedGraph *g = recording()) {
    const at::Tensor out = product(a, b);
    g->add([product, a = g->hold(a), b = g->hold(b), out] { copy_elements(product(a, b), out); });
    return out;
  }
  operation("mm.dtype");
  return product(a, b);
}

// Attention in sequences of any lengths, which a GPU has and the CPU not, with the operands and the limits of ATen's operations
// for GPUs (aten/src/ATen/native/transformers/cuda/attention.cu).

using Optional = std::optional<at::Tensor>;

void check_ends(const at::Tensor &ends) {
  TORCH_CHECK(ends.device().type() == kType && ends.scalar_type() == at::kInt && ends.dim() == 1 && ends.is_contiguous(),
              "attention: the offsets must be int32 and on the device");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_forward(
    const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const Optional &ends, const Optional &, int64_t, int64_t,
    double dropout, bool causal, bool, std::optional<double> scale, std::optional<int64_t>, std::optional<int64_t>,
    const Optional &, const Optional &) {
  TORCH_CHECK(q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf, "flash attention takes 16-bit types only");
  TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256, "flash attention takes heads of a multiple of 8 up to 256");
  TORCH_CHECK(q.stride(2) == 1 && k.stride(2) == 1 && v.stride(2) == 1 && dropout == 0 && causal && ends && scale);
  check_ends(*ends);
  operation("_flash_attention_forward");
  const Inside i;
  auto [out, lse] = om::attention_forward(Open(q).cpu, Open(k).cpu, Open(v).cpu, Open(*ends).cpu, *scale);
  const at::Tensor none = at::empty({0}, q.options());
  return {out.to(q.device()), lse.to(q.device()), none, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const at::Tensor &dout, const at::Tensor &q, const at::Tensor &k,
                                                              const at::Tensor &v, const at::Tensor &out, const at::Tensor &lse,
                                                              const at::Tensor &ends, const at::Tensor &, int64_t, int64_t,
                                                              double, bool, const at::Tensor &, const at::Tensor &,
                                                              std::optional<double> scale, std::optional<int64_t>,
                                                              std::optional<int64_t>) {
  check_ends(ends);
  operation("_flash_attention_backward");
  const Inside i;
  auto [dq, dk, dv] = om::attention_backward(Open(dout).cpu, Open(q).cpu, Open(k).cpu, Open(v).cpu, Open(out).cpu, Open(lse).cpu,
                                             Open(ends).cpu, *scale);
  return {dq.to(q.device()), dk.to(q.device()), dv.to(q.device())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const Optional &, const Optional &ends, const Optional &,
    std::optional<c10::SymInt> longest, std::optional<c10::SymInt>, double dropout, int64_t mask, bool, std::optional<double> scale,
    const Optional &, std::optional<int64_t>) {
  TORCH_CHECK(q.dim() == 4 && q.size(0) == 1 && k.size(2) == q.size(2), "efficient attention takes one batch and equal heads");
  TORCH_CHECK(q.size(3) % 4 == 0 && q.stride(3) == 1 && k.stride(3) == 1 && v.stride(3) == 1 && dropout == 0 && mask == 1 && ends &&
              longest && scale);
  check_ends(*ends);
  operation("_efficient_attention_forward");
  const Inside i;
  auto [out, lse] =
      om::attention_forward(Open(q).cpu.squeeze(0), Open(k).cpu.squeeze(0), Open(v).cpu.squeeze(0), Open(*ends).cpu, *scale);
  const at::Tensor none = at::empty({}, at::TensorOptions().dtype(at::kLong).device(kType));
  return {out.unsqueeze(0).to(q.device()), lse.to(q.device()), none, none, *longest, *longest};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor &dout, const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const Optional &, const at::Tensor &out,
    const Optional &ends, const Optional &, int64_t, int64_t, const at::Tensor &lse, double, const at::Tensor &, const at::Tensor &,
    int64_t, bool, std::optional<double> scale, std::optional<int64_t>, std::optional<int64_t>, bool) {
  check_ends(*ends);
  operation("_efficient_attention_backward");
  const Inside i;
  auto [dq, dk, dv] =
      om::attention_backward(Open(dout).cpu.squeeze(0), Open(q).cpu.squeeze(0), Open(k).cpu.squeeze(0), Open(v).cpu.squeeze(0),
                             Open(out).cpu.squeeze(0), Open(lse).cpu, Open(*ends).cpu, *scale);
  auto back = [&](const at::Tensor &t) { return t.unsqueeze(0).to(q.device()); };
  return {back(dq), back(dk), back(dv), at::Tensor()};
}

// The tensors of an operand or a result held for a graph.
c10::IValue held(om::ProtectedGraph &g, const c10::IValue &v) {
  if (v.isTensor()) return g.hold(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &t : v.toTensorVector()) list.push_back(g.hold(t));
    return list;
  }
  return v;
}

// Computes an operation, which gives its results memory of the graph, and adds it to the graph. A launch computes it again and
// copies its results there.
void record(om::ProtectedGraph &g, const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const size_t operands = op.schema().arguments().size(), results = op.schema().returns().size();
  torch::jit::Stack in, out;
  for (const c10::IValue &v : torch::jit::last(*stack, operands)) in.push_back(held(g, v));
  {
    const Inside i;
    at::native::cpu_fallback(op, stack);
  }
  for (const c10::IValue &v : torch::jit::last(*stack, results)) {
    TORCH_CHECK(v.isTensor(), op.schema().name(), " has a result on the host and cannot be recorded in a graph");
    out.push_back(held(g, v));
  }
  g.add([op, in, out] {
    torch::jit::Stack s;
    for (const c10::IValue &v : in) s.push_back(v.isTensorList() ? c10::IValue(c10::List<at::Tensor>(v.toTensorVector())) : v);
    at::native::cpu_fallback(op, &s);
    for (size_t i = 0; i < out.size(); i++) {
      const at::Tensor &from = s[i].toTensor(), &to = out[i].toTensor();
      if (to.defined() && from.storage().data() != to.storage().data()) copy_elements(from, to);  // equal if in place
    }
  });
}

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  if (om::ProtectedGraph *g = recording()) return record(*g, op, stack);
  operation(op.schema().name().c_str());
  const Inside i;
  at::native::cpu_fallback(op, stack);
}

// ---------------------------------------------------------------- device

using Clock = std::chrono::steady_clock;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr at::DeviceType static_type = kType;
  at::DeviceType type() const override { return kType; }
  at::Device exchangeDevice(at::Device) const override { return getDevice(); }
  at::Device getDevice() const override { return {kType, 0}; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  c10::Stream getStream(at::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, getDevice());
  }
  c10::Stream getStreamFromGlobalPool(at::Device, bool) const override { return getStream(getDevice()); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(getDevice()); }
  at::DeviceIndex deviceCount() const noexcept override { return 1; }
  // An event is the time at which it was recorded; the operations before have ended.
  void record(void **event, const c10::Stream &, const at::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock::time_point;
    *static_cast<Clock::time_point *>(*event) = Clock::now();
  }
  void synchronizeEvent(void *) const override {}
  double elapsedTime(void *from, void *to, const at::DeviceIndex) const override {
    const auto d = *static_cast<Clock::time_point *>(to) - *static_cast<Clock::time_point *>(from);
    return std::chrono::duration<double, std::milli>(d).count();
  }
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
  void destroyEvent(void *event, const at::DeviceIndex) const noexcept override { delete static_cast<Clock::time_point *>(event); }
  bool queryStream(const c10::Stream &) const override { return true; }
  void synchronizeStream(const c10::Stream &) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  void resizePrivateUse1Bytes(const c10::Storage &s, size_t n) const override {
    at::DataPtr old = s.set_data_ptr(allocator.allocate(n));
    const size_t keep = std::min(n, s.nbytes());
    s.unsafeGetStorageImpl()->set_nbytes(n);
    if (keep == 0) return;
    void *from = old.get(), *to = s.mutable_data();
    memory().change(from, 1);
    memory().change(to, 1);
    std::memcpy(to, from, keep);
    memory().change(from, -1);
    memory().change(to, -1);
  }
};

Hooks hooks;

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("mm.dtype", TORCH_FN(mm_dtype));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  m.impl("_flash_attention_forward", TORCH_FN(flash_forward));
  m.impl("_flash_attention_backward", TORCH_FN(flash_backward));
  m.impl("_efficient_attention_forward", TORCH_FN(efficient_forward));
  m.impl("_efficient_attention_backward", TORCH_FN(efficient_backward));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

struct Register {
  Register() {
    c10::register_privateuse1_backend("protected");
    at::RegisterPrivateUse1HooksInterface(&hooks);
  }
} registered;

}  // namespace

// Runs every block of a kernel, one after another.
void run(const char *name, const unsigned grid[3], unsigned threads, void **args, const std::vector<at::Tensor> &tensors) {
  std::vector<std::unique_ptr<Open>> open;
  for (const at::Tensor &t : tensors) open.push_back(std::make_unique<Open>(t));
  om::run_kernel(name, grid, threads, args);
}

void launch(const char *name, const unsigned grid[3], unsigned threads, void **args, const std::vector<at::Tensor> &tensors, at::Device) {
  if (om::ProtectedGraph *g = recording()) {
    std::vector<at::Tensor> kept;
    for (const at::Tensor &t : tensors) kept.push_back(g->hold(t));
    std::array<uint64_t, om::gpu::kMaxArguments> values;
    for (size_t i = 0; i < values.size(); i++) std::memcpy(&values[i], args[i], sizeof values[i]);
    g->add([name = std::string(name), grid = std::array<unsigned, 3>{grid[0], grid[1], grid[2]}, threads, values, kept] {
      std::array<void *, om::gpu::kMaxArguments> pointers;
      for (size_t i = 0; i < values.size(); i++) pointers[i] = const_cast<uint64_t *>(&values[i]);
      run(name.c_str(), grid.data(), threads, pointers.data(), kept);
    });
    return;
  }
  operation(name);
  run(name, grid, threads, args, tensors);
}

uint64_t om::allocation_at(const void *address) { return memory().number(address).first; }

uint64_t om::last_allocation() { return memory().number(nullptr).second; }

void om::as_operation(const char *name, const std::function<void()> &f) {
  operation(name);
  const Inside i;
  f();
}

// The shim looks these functions up when it loads the library.
extern "C" om::gpu::Launch om_launch_protected() { return launch; }

extern "C" void om_count_protected(om_counts *out) {
  out->operations = operations;
  out->uploads = uploads;
  out->downloads = downloads;
}

// Starts a trace, or ends it and returns its names, which are valid until the next trace.
extern "C" const char *om_trace_protected(int on) {
  Trace &t = trace();
  std::lock_guard<std::mutex> lock(t.mu);
  t.on = on != 0;
  if (t.on) t.names.clear();
  return t.names.c_str();
}
