#include "gpu_cuda.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <map>
#include <mutex>

#include "gpu.h"
#include "internal.h"

// The sources of cuda/ as one text; build.sh makes it.
extern "C" const char *om_kernel_source(void);

namespace om::gpu {
namespace {

// The part of the driver's interface (cuda.h) that is used. Results are CUresult, 0 for success.
struct Driver {
  int (*device_get)(int *device, int index);
  int (*device_attribute)(int *value, int attribute, int device);
  int (*error_string)(int result, const char **text);
  int (*module_load)(void **module, const void *image);
  int (*module_function)(void **function, void *module, const char *name);
  int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                void *stream, void **args, void **extra);

  void check(int result, const char *what) const {
    if (result == 0) return;
    const char *text = nullptr;
    error_string(result, &text);
    TORCH_CHECK(false, what, ": ", text == nullptr ? "unknown error of the driver" : text, " (", result, ")");
  }
};

constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR}

// The part of NVRTC's interface (nvrtc.h) that is used. Results are nvrtcResult, 0 for success.
struct Compiler {
  int (*create)(void **program, const char *source, const char *name, int headers, const char *const *texts,
                const char *const *names);
  int (*compile)(void *program, int options, const char *const *values);
  int (*log_size)(void *program, size_t *n);
  int (*log)(void *program, char *text);
  int (*cubin_size)(void *program, size_t *n);
  int (*cubin)(void *program, char *data);
  int (*destroy)(void **program);
};

void *open_library(const char *name) {
  void *l = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (l == nullptr) {
    const char *why = dlerror();
    TORCH_CHECK(false, name, " cannot be loaded: ", why == nullptr ? "unknown reason" : why);
  }
  return l;
}

template <class F>
void find(void *library, const char *name, F *function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  TORCH_CHECK(*function != nullptr, "there is no ", name, " in the library");
}

const Driver &driver() {
  static const Driver d = [] {
    Driver d;
    void *l = open_library("libcuda.so.1");
    find(l, "cuDeviceGet", &d.device_get);
    find(l, "cuDeviceGetAttribute", &d.device_attribute);
    find(l, "cuGetErrorString", &d.error_string);
    find(l, "cuModuleLoadData", &d.module_load);
    find(l, "cuModuleGetFunction", &d.module_function);
    find(l, "cuLaunchKernel", &d.launch);
    return d;
  }();
  return d;
}

const Compiler &compiler() {
  static const Compiler c = [] {
    Compiler c;
    // NVRTC opens its second library by name only, so that library is loaded before.
    dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW | RTLD_GLOBAL);
    void *l = open_library("libnvrtc.so.13");
    find(l, "nvrtcCreateProgram", &c.create);
    find(l, "nvrtcCompileProgram", &c.compile);
    find(l, "nvrtcGetProgramLogSize", &c.log_size);
    find(l, "nvrtcGetProgramLog", &c.log);
    find(l, "nvrtcGetCUBINSize", &c.cubin_size);
    find(l, "nvrtcGetCUBIN", &c.cubin);
    find(l, "nvrtcDestroyProgram", &c.destroy);
    return c;
  }();
  return c;
}

// The kernels of one device, loaded into its primary context, which libtorch has made current on the calling thread.
class Module {
 public:
  explicit Module(int index) {
    const Driver &d = driver();
    int device = 0, major = 0, minor = 0;
    d.check(d.device_get(&device, index), "cuDeviceGet");
    d.check(d.device_attribute(&major, kCapabilityMajor, device), "cuDeviceGetAttribute");
    d.check(d.device_attribute(&minor, kCapabilityMinor, device), "cuDeviceGetAttribute");
    const std::string image = compile("sm_" + std::to_string(major) + std::to_string(minor));
    d.check(d.module_load(&module_, image.data()), "cuModuleLoadData");
  }

  void *function(const char *name) {
    const auto it = functions_.find(name);
    if (it != functions_.end()) return it->second;
    void *function = nullptr;
    driver().check(driver().module_function(&function, module_, name), name);
    return functions_[name] = function;
  }

 private:
  void *module_ = nullptr;
  std::map<std::string, void *> functions_;
};

void launch(const char *kernel, const unsigned grid[3], unsigned threads, void **args, const std::vector<at::Tensor> &,
            at::Device device) {
  static std::mutex mu;
  static auto *modules = new std::map<int, Module>;  // never destroyed: the driver may be gone when the process ends
  void *function = nullptr;
  {
    std::lock_guard<std::mutex> lock(mu);
    function = modules->try_emplace(device.index(), device.index()).first->second.function(kernel);
  }
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(at::kCUDA)->getStream(device);
  driver().check(driver().launch(function, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream.native_handle(), args, nullptr),
                 kernel);
}

}  // namespace

std::string compile(const std::string &architecture) {
  const Compiler &c = compiler();
  void *program = nullptr;
  TORCH_CHECK(c.create(&program, om_kernel_source(), "kernels.cu", 0, nullptr, nullptr) == 0, "NVRTC takes no program");
  const std::string target = "--gpu-architecture=" + architecture;
  const char *options[] = {target.c_str(), "--std=c++17"};
  const int result = c.compile(program, 2, options);
  size_t n = 0;
  std::string out;
  if (result == 0 && c.cubin_size(program, &n) == 0) {
    out.resize(n);
    c.cubin(program, out.data());
  } else if (c.log_size(program, &n) == 0) {
    out.resize(n);
    c.log(program, out.data());
  }
  c.destroy(&program);
  TORCH_CHECK(result == 0, "the kernels cannot be compiled for ", architecture, ": ", out.c_str());
  return out;
}

void use_cuda() {
  driver();
  compiler();
  set_launch(at::kCUDA, launch);
}

}  // namespace om::gpu

const char *om_compile_kernels(const char *architecture, int64_t *bytes) {
  OM_TRY { *bytes = static_cast<int64_t>(om::gpu::compile(architecture).size()); }
  OM_END
}

const char *om_use_kernels(void) {
  OM_TRY { om::gpu::use_cuda(); }
  OM_END
}
