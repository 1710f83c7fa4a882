// Threads, CUDA, and the versions of the loaded libraries.
#include <c10/core/Event.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <signal.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu.h"
#include "internal.h"

namespace {

#define OM_STRING2(x) #x
#define OM_STRING(x) OM_STRING2(x)
constexpr const char *kCompiled =
    OM_STRING(TORCH_VERSION_MAJOR) "." OM_STRING(TORCH_VERSION_MINOR) "." OM_STRING(TORCH_VERSION_PATCH);

// CUDA's initialisation installs signal handlers of its own, some without SA_ONSTACK, on which Go would crash at the next
// Ctrl-C. The previous handlers are restored afterwards.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (int s : kSignals) sigaction(s, nullptr, &old_[s]);
  }
  ~SignalKeeper() {
    for (int s : kSignals) sigaction(s, &old_[s], nullptr);
  }
  SignalKeeper(const SignalKeeper &) = delete;
  SignalKeeper &operator=(const SignalKeeper &) = delete;

 private:
  static constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGABRT, SIGBUS,
                                     SIGFPE,  SIGSEGV, SIGPIPE, SIGTERM, SIGCHLD, SIGURG, SIGPROF};
  struct sigaction old_[64] = {};
};
constexpr int SignalKeeper::kSignals[];

std::mutex cuda_mu;
bool cuda_loaded = false;

// The protected device's own function for the counts; NULL until its library is loaded.
std::atomic<void (*)(om_counts *)> protected_counts{nullptr};
std::atomic<const char *(*)(int)> protected_trace{nullptr};

void load_protected() {
  void *l = dlopen("libopenmanus_protected.so", RTLD_NOW | RTLD_GLOBAL);
  void *f = l == nullptr ? nullptr : dlsym(l, "om_count_protected");
  if (f == nullptr) {
    const char *why = dlerror();
    TORCH_CHECK(false, "libopenmanus_protected.so cannot be loaded: ", why == nullptr ? "unknown reason" : why);
  }
  void *launch = dlsym(l, "om_launch_protected");
  TORCH_CHECK(launch != nullptr, "libopenmanus_protected.so has no kernels");
  om::gpu::set_launch(at::kPrivateUse1, reinterpret_cast<om::gpu::Launch (*)()>(launch)());
  protected_trace = reinterpret_cast<const char *(*)(int)>(dlsym(l, "om_trace_protected"));
  protected_counts = reinterpret_cast<void (*)(om_counts *)>(f);
}

// The events at the begin and the end of the jobs of an OS thread, and the time of earlier ones.
struct Marks {
  std::optional<c10::Event> begin;  // of the running job
  std::vector<std::pair<c10::Event, c10::Event>> jobs;
  double seconds = 0;

  void collect() {
    if (!jobs.empty()) jobs.back().second.synchronize();
    for (auto &[begin, end] : jobs) seconds += begin.elapsedTime(end) / 1000;
    jobs.clear();
  }
};

thread_local Marks marks;

}  // namespace

// ATen looks its hooks up once, at the first device query, so libtorch_cuda must register before.
void om::load_cuda() {
  std::lock_guard<std::mutex> lock(cuda_mu);
  if (cuda_loaded) return;
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char *why = dlerror();
    TORCH_CHECK(false, "libtorch_cuda.so cannot be loaded: ", why == nullptr ? "unknown reason" : why);
  }
  cuda_loaded = true;
}

extern "C" {

int om_abi_version(void) { return OM_ABI; }

const char *om_libtorch_compiled(void) { return kCompiled; }

const char *om_libtorch_loaded(void) {
  // The number is major << 56 | minor << 48 | patch << 40. at::show_config also names the version but asks for CUDA,
  // which must not happen before load_cuda.
  static const std::string s = [] {
    uint64_t v = aoti_torch_abi_version();
    char b[64];
    std::snprintf(b, sizeof b, "%d.%d.%d", static_cast<int>(v >> 56 & 0xff), static_cast<int>(v >> 48 & 0xff),
                  static_cast<int>(v >> 40 & 0xff));
    return std::string(b);
  }();
  return s.c_str();
}

const char *om_set_num_threads(int64_t n) {
  OM_TRY {
    TORCH_CHECK(n >= 1, n, " threads; at least 1 is needed");
    at::set_num_threads(static_cast<int>(n));
  }
  OM_END
}

int64_t om_num_threads(void) { return at::get_num_threads(); }

const char *om_device_count(int64_t device_kind, int64_t *out) {
  OM_TRY {
    if (device_kind != OM_CUDA) {
      if (device_kind == OM_PROTECTED) load_protected();
      *out = 1;
      return nullptr;
    }
    SignalKeeper keep;
    om::load_cuda();
    if (!at::globalContext().hasCUDA()) {
      if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
        const char *why = dlerror();
        TORCH_CHECK(false, "the library of NVIDIA's driver cannot be loaded: ", why == nullptr ? "unknown reason" : why);
      }
      TORCH_CHECK(false, "NVIDIA's driver has no GPU for this process, or is too old for CUDA 13");
    }
    *out = at::detail::getCUDAHooks().deviceCount();
  }
  OM_END
}

const char *om_use_device(int64_t device_kind, int64_t device_index) {
  OM_TRY {
    if (device_kind != OM_CUDA) return nullptr;
    SignalKeeper keep;
    at::Device d = om::device(device_kind, device_index);
    c10::impl::getDeviceGuardImpl(d.type())->setDevice(d);
    // cuDNN's attention plans are built per exact pair of lengths, 42 to 400 ms each, and kept without bound
    // (pytorch#191576): every new context length would build one.
    at::globalContext().setSDPUseCuDNN(false);
    // Float32 products keep their precision, and bfloat16 products are summed in float32: log-probs of sampling and of
    // training are compared.
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    at::empty({1}, at::TensorOptions().device(d));  // the first allocation makes the context
  }
  OM_END
}

const char *om_device_memory(int64_t device_kind, int64_t device_index, om_memory *out) {
  OM_TRY {
    const at::Device d = om::device(device_kind, device_index);
    c10::DeviceAllocator *a = c10::getDeviceAllocator(d.type());
    const auto info = a->getMemoryInfo(d.index());
    const auto stats = a->getDeviceStats(d.index());
    const auto &all = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    const auto &reserved = stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    out->total = static_cast<int64_t>(info.second);
    out->allocated = all.current;
    out->peak = all.peak;
    // Memory that the allocator holds for later tensors is free for this process.
    out->free = static_cast<int64_t>(info.first) + std::max<int64_t>(0, reserved.current - all.current);
    a->resetPeakStats(d.index());
  }
  OM_END
}

const char *om_mark_job(int64_t device_kind, int64_t device_index, int begins) {
  OM_TRY {
    const c10::Stream stream = c10::impl::getDeviceGuardImpl(om::device(device_kind, 0).type())->getStream(om::device(device_kind, device_index));
    c10::Event now(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
    now.record(stream);
    if (begins != 0) {
      marks.begin.emplace(std::move(now));
      return nullptr;
    }
    TORCH_CHECK(marks.begin, "the end of a job that did not begin");
    marks.jobs.emplace_back(std::move(*marks.begin), std::move(now));
    marks.begin.reset();
    if (marks.jobs.size() >= 1000) marks.collect();
  }
  OM_END
}

const char *om_job_seconds(double *out) {
  OM_TRY {
    marks.collect();
    *out = marks.seconds;
    marks.seconds = 0;
  }
  OM_END
}

const char *om_empty_cache(int64_t device_kind) {
  OM_TRY {
    if (device_kind != OM_CPU) c10::getDeviceAllocator(om::device(device_kind, 0).type())->emptyCache();
  }
  OM_END
}

const char *om_protected_counts(om_counts *out) {
  OM_TRY {
    TORCH_CHECK(protected_counts != nullptr, "the protected device is not loaded");
    protected_counts.load()(out);
  }
  OM_END
}

const char *om_protected_trace(int on, const char **names) {
  OM_TRY {
    TORCH_CHECK(protected_trace != nullptr, "the protected device is not loaded");
    *names = protected_trace.load()(on);
  }
  OM_END
}

}  // extern "C"
