// Handles: lifetime, memory accounting, and copies of data from and to the caller.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include <c10/core/GradMode.h>

#include "gpu.h"
#include "internal.h"

namespace {

// Several handles may share one storage, so bytes are counted per storage: an entry has its number of handles and
// its size at the first handle. No function of the shim changes the storage of a tensor, so the key stays valid.
struct Live {
  std::mutex mu;
  int64_t tensors = 0;
  int64_t bytes = 0;
  struct Entry {
    int64_t handles;
    int64_t bytes;
  };
  std::unordered_map<const void *, Entry> storages;
};

Live &live() {
  static Live *l = new Live;  // never destroyed: tensors may be freed while the process ends
  return *l;
}

const void *storage_of(const at::Tensor &t) {
  return t.defined() && t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

void track(const at::Tensor &t) {
  const void *key = storage_of(t);
  int64_t bytes = key == nullptr ? 0 : static_cast<int64_t>(t.storage().nbytes());
  Live &l = live();
  std::lock_guard<std::mutex> lock(l.mu);
  l.tensors++;
  if (key == nullptr) return;
  auto [it, fresh] = l.storages.try_emplace(key, Live::Entry{0, bytes});
  it->second.handles++;
  if (fresh) l.bytes += bytes;
}

void untrack(const at::Tensor &t) {
  const void *key = storage_of(t);
  Live &l = live();
  std::lock_guard<std::mutex> lock(l.mu);
  l.tensors--;
  if (key == nullptr) return;
  auto it = l.storages.find(key);
  if (it == l.storages.end() || --it->second.handles > 0) return;
  l.bytes -= it->second.bytes;
  l.storages.erase(it);
}

int64_t count_of(const int64_t *dims, int64_t n) {
  int64_t count = 1;
  for (int64_t i = 0; i < n; i++) {
    TORCH_CHECK(dims[i] >= 0, "size ", dims[i], " of dimension ", i, " is negative");
    TORCH_CHECK(!__builtin_mul_overflow(count, dims[i], &count), "the number of elements does not fit 64 bits");
  }
  return count;
}

}  // namespace

namespace om {

om_tensor wrap(at::Tensor t) {
  auto *p = new at::Tensor(std::move(t));
  track(*p);
  return p;
}

at::ScalarType scalar_type(int64_t dtype) {
  switch (dtype) {
    case OM_F32: return at::kFloat;
    case OM_F64: return at::kDouble;
    case OM_BF16: return at::kBFloat16;
    case OM_F16: return at::kHalf;
    case OM_I64: return at::kLong;
    case OM_I32: return at::kInt;
    case OM_U8: return at::kByte;
    case OM_BOOL: return at::kBool;
    case OM_I8: return at::kChar;
  }
  TORCH_CHECK(false, "unknown element type code ", dtype);
}

int64_t dtype_code(at::ScalarType t) {
  switch (t) {
    case at::kFloat: return OM_F32;
    case at::kDouble: return OM_F64;
    case at::kBFloat16: return OM_BF16;
    case at::kHalf: return OM_F16;
    case at::kLong: return OM_I64;
    case at::kInt: return OM_I32;
    case at::kByte: return OM_U8;
    case at::kBool: return OM_BOOL;
    case at::kChar: return OM_I8;
    default: break;
  }
  TORCH_CHECK(false, "element type ", at::toString(t), " is not supported");
}

at::Device device(int64_t kind, int64_t index) {
  switch (kind) {
    case OM_CPU: return at::Device(at::kCPU);
    case OM_CUDA: return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
    case OM_PROTECTED: return at::Device(at::kPrivateUse1, 0);
  }
  TORCH_CHECK(false, "unknown device kind ", kind);
}

const char *fail(const char *what) {
  const char *cut = std::strstr(what, "\nException raised from ");
  size_t n = cut == nullptr ? std::strlen(what) : static_cast<size_t>(cut - what);
  while (n > 0 && (what[n - 1] == '\n' || what[n - 1] == ' ')) n--;
  if (n == 0) {
    what = "unknown error";
    n = std::strlen(what);
  }
  char *s = static_cast<char *>(std::malloc(n + 1));
  if (s == nullptr) std::abort();
  std::memcpy(s, what, n);
  s[n] = 0;
  return s;
}

}  // namespace om

extern "C" {

void om_free_string(const char *s) { std::free(const_cast<char *>(s)); }

void om_free(om_tensor *ts, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    auto *t = static_cast<at::Tensor *>(ts[i]);
    if (t == nullptr) continue;
    untrack(*t);
    delete t;
  }
}

void om_track(om_tensor t) {
  if (t != nullptr) track(*static_cast<at::Tensor *>(t));
}

void om_live(int64_t *tensors, int64_t *bytes) {
  Live &l = live();
  std::lock_guard<std::mutex> lock(l.mu);
  *tensors = l.tensors;
  *bytes = l.bytes;
}

const char *om_info(om_tensor t, om_info_t *out) {
  OM_TRY {
    const at::Tensor &x = om::ref(t);
    TORCH_CHECK(x.dim() <= OM_MAX_DIMS, "a tensor of ", x.dim(), " dimensions; at most ", OM_MAX_DIMS, " are supported");
    out->ndim = x.dim();
    for (int64_t i = 0; i < x.dim(); i++) out->dims[i] = x.size(i);
    out->dtype = om::dtype_code(x.scalar_type());
    out->device_kind = x.is_cuda() ? OM_CUDA : x.is_privateuseone() ? OM_PROTECTED : OM_CPU;
    out->device_index = x.is_cuda() ? x.device().index() : 0;
  }
  OM_END
}

const char *om_from_data(const void *data, int64_t nbytes, int64_t dtype, const int64_t *dims, int64_t n,
                         int64_t device_kind, int64_t device_index, om_tensor *out) {
  OM_TRY {
    at::ScalarType st = om::scalar_type(dtype);
    int64_t want = count_of(dims, n) * static_cast<int64_t>(at::elementSize(st));
    TORCH_CHECK(want == nbytes, "data of ", nbytes, " bytes for a shape that takes ", want);
    *out = om::wrap(om::gpu::upload(data, om::shape(dims, n), st, om::device(device_kind, device_index)));
  }
  OM_END
}

const char *om_to_data(om_tensor t, int64_t dtype, void *data, int64_t nbytes) {
  OM_TRY {
    c10::NoGradGuard no_grad;
    at::Tensor x = om::ref(t).detach().to(at::Device(at::kCPU), om::scalar_type(dtype)).contiguous();
    om::check_collectives();
    TORCH_CHECK(static_cast<int64_t>(x.nbytes()) == nbytes, "room for ", nbytes, " bytes, the tensor has ", x.nbytes());
    if (nbytes > 0) std::memcpy(data, x.const_data_ptr(), static_cast<size_t>(nbytes));
  }
  OM_END
}

const char *om_item(om_tensor t, double *out) {
  OM_TRY {
    *out = om::ref(t).item().toDouble();
    om::check_collectives();
  }
  OM_END
}

const char *om_empty(int64_t dtype, const int64_t *dims, int64_t n, int64_t device_kind, int64_t device_index,
                     om_tensor *out) {
  OM_TRY {
    count_of(dims, n);
    *out = om::wrap(at::empty(om::shape(dims, n), at::TensorOptions()
                                                      .dtype(om::scalar_type(dtype))
                                                      .device(om::device(device_kind, device_index))));
  }
  OM_END
}

const char *om_full(double value, int64_t dtype, const int64_t *dims, int64_t n, int64_t device_kind,
                    int64_t device_index, om_tensor *out) {
  OM_TRY {
    count_of(dims, n);
    at::Tensor t = at::empty(om::shape(dims, n), at::TensorOptions()
                                                     .dtype(om::scalar_type(dtype))
                                                     .device(om::device(device_kind, device_index)));
    *out = om::wrap(t.fill_(value));
  }
  OM_END
}

}  // extern "C"
