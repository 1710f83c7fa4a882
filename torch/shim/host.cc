// The allocator of tensors on the host.
//
// libtorch's own allocator calls posix_memalign, which looks for a free block that is longer than the tensor by the alignment. The block
// of a freed tensor is often too short for a tensor of the same size. A training step frees tensors of a few sizes between others that it
// keeps; a sixth of the process's memory was in such blocks. This allocator asks malloc for the size plus room for the alignment, which is
// the same for both tensors.
#include <c10/core/CPUAllocator.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kAlignment = 64;  // as c10::gAlignment, the length of a line of the cache

// Frees a block of allocate. The pointer that malloc has returned lies before the block.
void release(void *data) {
  if (data != nullptr) std::free(static_cast<void **>(data)[-1]);
}

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    const size_t room = n + kAlignment + sizeof(void *);
    void *base = room > n ? std::malloc(room) : nullptr;
    TORCH_CHECK(base != nullptr, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", n, " bytes. Error code ", ENOMEM,
                " (", std::strerror(ENOMEM), ")");
    const uintptr_t first = reinterpret_cast<uintptr_t>(base) + sizeof(void *);
    void *data = reinterpret_cast<void *>((first + kAlignment - 1) / kAlignment * kAlignment);
    static_cast<void **>(data)[-1] = base;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *dest, const void *src, size_t n) const override { default_copy_data(dest, src, n); }
};

// Tensors that were made before keep libtorch's own deleter.
[[maybe_unused]] const bool installed = [] {
  c10::SetCPUAllocator(new HostAllocator, 1);  // above the priority of libtorch's own; it is never destroyed, like libtorch's
  return true;
}();

}  // namespace
