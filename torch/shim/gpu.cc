#include "gpu.h"

#include <atomic>
#include <utility>

#include "fused_vec.h"

namespace om::gpu {
namespace {

std::atomic<Launch> backends[static_cast<size_t>(at::COMPILE_TIME_MAX_DEVICE_TYPES)];

Launch backend(at::DeviceType t) { return backends[static_cast<size_t>(t)].load(std::memory_order_acquire); }

}  // namespace

void set_launch(at::DeviceType type, Launch launch) {
  backends[static_cast<size_t>(type)].store(launch, std::memory_order_release);
}

bool ready(const at::Tensor &t) {
  return cpu_level() >= 0 && backend(t.device().type()) != nullptr && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16);
}

namespace {

// A copy of the host's elements in memory from which they can be copied to a device, and whether it is pinned.
std::pair<at::Tensor, bool> staged(const void *data, at::IntArrayRef shape, at::ScalarType type, at::Device device) {
  constexpr size_t most = 64 << 20;  // the allocator keeps pinned memory; arrays as large as weights are rare
  at::TensorOptions options = at::TensorOptions().dtype(type);
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(shape)) * at::elementSize(type);
  const bool pinned = device.is_cuda() && bytes <= most;
  at::Tensor t = at::empty(shape, pinned ? options.pinned_memory(true) : options);
  if (bytes > 0) std::memcpy(t.data_ptr(), data, bytes);
  return {t, pinned};
}

}  // namespace

at::Tensor upload(const void *data, at::IntArrayRef shape, at::ScalarType type, at::Device device) {
  const auto [t, pinned] = staged(data, shape, type, device);
  return t.to(device, type, pinned);
}

void upload_into(const at::Tensor &t, const void *data) {
  const auto [from, pinned] = staged(data, t.sizes(), t.scalar_type(), t.device());
  at::Tensor to = t;
  to.copy_(from, pinned);
}

at::Tensor counters(at::Device device, int64_t n) {
  static thread_local std::vector<at::Tensor> all;
  for (const at::Tensor &t : all)
    if (t.device() == device && t.numel() >= n) return t;
  all.push_back(at::zeros({std::max<int64_t>(2 * n, 1 << 15)}, at::TensorOptions().dtype(at::kInt).device(device)));
  return all.back();
}

Call::Call(const char *kernel, const at::Tensor &t)
    : name_(std::string(kernel) + (t.scalar_type() == at::kFloat ? "_f32" : "_bf16")), device_(t.device()) {}

Call &Call::operator()(const at::Tensor &t) {
  if (!t.defined()) return (*this)(uint64_t{0});
  accesses(t);
  const void *p = t.const_data_ptr();
  std::memcpy(&values_[n_++], &p, sizeof p);
  return *this;
}

Call &Call::accesses(const at::Tensor &t) {
  TORCH_CHECK(t.device() == device_, name_, ": an operand is on ", t.device(), ", the kernel runs on ", device_);
  tensors_.push_back(t);
  return *this;
}

void Call::run(int64_t x, int64_t y, int64_t z, int threads) {
  if (x == 0 || y == 0 || z == 0) return;
  TORCH_CHECK(x <= INT32_MAX && y <= 65535 && z <= 65535, name_, ": a grid of ", x, " x ", y, " x ", z, " blocks is too large");
  std::array<void *, kMaxArguments> args;
  for (size_t i = 0; i < kMaxArguments; i++) args[i] = &values_[i];
  const unsigned grid[3] = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
  backend(device_.type())(name_.c_str(), grid, static_cast<unsigned>(threads), args.data(), tensors_, device_);
}

}  // namespace om::gpu
