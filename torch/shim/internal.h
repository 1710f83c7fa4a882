// Shared by the files of the shim: conversions between the C interface and ATen, and the error convention.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <string>

#include "openmanus_torch.h"

namespace om {

// The tensor of a handle, which must not be NULL.
inline at::Tensor &ref(om_tensor t) {
  TORCH_CHECK(t != nullptr, "an operand is missing");
  return *static_cast<at::Tensor *>(t);
}

// The tensor of an optional handle; undefined if it is NULL.
inline at::Tensor opt(om_tensor t) { return t == nullptr ? at::Tensor() : *static_cast<at::Tensor *>(t); }

// A new, counted handle for t. Every om_tensor that a function returns is made here.
om_tensor wrap(at::Tensor t);

at::ScalarType scalar_type(int64_t dtype);
int64_t dtype_code(at::ScalarType t);
at::Device device(int64_t kind, int64_t index);

inline at::IntArrayRef shape(const int64_t *dims, int64_t n) {
  return at::IntArrayRef(dims, static_cast<size_t>(n));
}

// Loads libtorch_cuda if it is not yet loaded.
void load_cuda();

// Throws if a collective that this thread has submitted to a device has failed. Functions that copy elements of a device to the
// host call it after the copy: the elements are undefined then.
void check_collectives();

// A malloc'ed copy of the message without libtorch's C++ backtrace.
const char *fail(const char *what);

}  // namespace om

// Usage: const char *om_x(...) { OM_TRY { ... } OM_END }
#define OM_TRY try
#define OM_END                                      \
  catch (const c10::Error &e) {                     \
    return om::fail(e.what_without_backtrace());    \
  }                                                 \
  catch (const std::exception &e) {                 \
    return om::fail(e.what());                      \
  }                                                 \
  catch (...) {                                     \
    return om::fail("unknown C++ exception");       \
  }                                                 \
  return nullptr;
