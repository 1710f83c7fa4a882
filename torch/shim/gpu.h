// Launches the kernels of cuda/ on a GPU, or on the protected device, which runs them on the CPU.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace om::gpu {

// ready reports whether the device of t has the kernels, and they support its type.
bool ready(const at::Tensor &t);

// upload returns a tensor with a copy of the host's elements on a device. On a GPU it goes through pinned memory, so that the thread
// does not wait for the GPU.
at::Tensor upload(const void *data, at::IntArrayRef shape, at::ScalarType type, at::Device device);

// upload_into copies the host's elements into t, which is contiguous and on a device, in the same way.
void upload_into(const at::Tensor &t, const void *data);

constexpr size_t kMaxArguments = 32;

// Call is one launch of a kernel whose name ends in the type of t, _f32 or _bf16. Its arguments are added in order.
class Call {
 public:
  Call(const char *kernel, const at::Tensor &t);

  // Adds the address of t's elements, or a null pointer if t is undefined. The kernel may write to them.
  Call &operator()(const at::Tensor &t);

  // Declares that the kernel accesses t, whose address is not an argument.
  Call &accesses(const at::Tensor &t);

  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Call &operator()(T x) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    std::memcpy(&values_[n_++], &x, sizeof x);
    return *this;
  }

  // Launches blocks of `threads` threads.
  void run(int64_t x, int64_t y, int64_t z, int threads);

 private:
  std::string name_;
  at::Device device_;
  std::array<uint64_t, kMaxArguments> values_{};
  size_t n_ = 0;
  std::vector<at::Tensor> tensors_;
};

// counters returns at least n integers that are 0, for kernels whose blocks count themselves. A kernel leaves them at 0, and the
// kernels of a device run one after another, so they are shared by all kernels of a thread. They stay valid, for graphs.
at::Tensor counters(at::Device device, int64_t n);

// threads_for returns the number of threads of a block that processes n elements: a multiple of 32, at most 1024.
inline int threads_for(int64_t n) { return static_cast<int>(std::min<int64_t>(1024, std::max<int64_t>(32, (n + 31) / 32 * 32))); }

// A back end launches a kernel on a device. args[i] points to argument i, of at most 8 bytes; there are kMaxArguments, and those
// after the last of the kernel are 0. tensors are those whose memory the kernel accesses.
using Launch = void (*)(const char *kernel, const unsigned grid[3], unsigned threads, void **args,
                        const std::vector<at::Tensor> &tensors, at::Device device);

// set_launch sets the back end of a type of device.
void set_launch(at::DeviceType type, Launch launch);

}  // namespace om::gpu
