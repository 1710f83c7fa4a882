// The generic operations: each is one ATen call.
#include <cmath>
#include <vector>

#include "internal.h"

namespace {

// A Scalar that leaves integer tensors integer when v is a whole number.
at::Scalar scalar_for(const at::Tensor &t, double v) {
  if (at::isIntegralType(t.scalar_type(), /*includeBool=*/true) && std::floor(v) == v && std::fabs(v) < 9e15) {
    return at::Scalar(static_cast<int64_t>(v));
  }
  return at::Scalar(v);
}

at::Tensor unary(int64_t op, const at::Tensor &t) {
  switch (op) {
    case OM_NEG: return at::neg(t);
    case OM_EXP: return at::exp(t);
    case OM_LOG: return at::log(t);
    case OM_SQRT: return at::sqrt(t);
    case OM_ABS: return at::abs(t);
    case OM_SQUARE: return at::square(t);
    case OM_NOT: return at::logical_not(t);
    case OM_ISFINITE: return at::isfinite(t);
    case OM_CLONE: return at::clone(t, at::MemoryFormat::Contiguous);
    case OM_CONTIGUOUS: return t.contiguous();
    case OM_MAX: return at::max(t);
    case OM_MIN: return at::min(t);
    case OM_ALL: return at::all(t);
  }
  TORCH_CHECK(false, "unknown unary operation ", op);
}

at::Tensor binary(int64_t op, const at::Tensor &a, const at::Tensor &b) {
  switch (op) {
    case OM_MATMUL: return at::matmul(a, b);
    case OM_MINIMUM: return at::minimum(a, b);
    case OM_MAXIMUM: return at::maximum(a, b);
    case OM_NE: return at::ne(a, b);
    case OM_LE: return at::le(a, b);
    case OM_GT: return at::gt(a, b);
    case OM_GE: return at::ge(a, b);
    case OM_AND: return at::logical_and(a, b);
    case OM_OR: return at::logical_or(a, b);
  }
  TORCH_CHECK(false, "unknown binary operation ", op);
}

at::Tensor with_scalar(int64_t op, const at::Tensor &t, const at::Scalar &v) {
  switch (op) {
    case OM_ADD_S: return at::add(t, v);
    case OM_MUL_S: return at::mul(t, v);
    case OM_LT_S: return at::lt(t, v);
    case OM_LE_S: return at::le(t, v);
    case OM_GT_S: return at::gt(t, v);
    case OM_GE_S: return at::ge(t, v);
  }
  TORCH_CHECK(false, "unknown scalar operation ", op);
}

}  // namespace

extern "C" {

const char *om_unary(int64_t op, om_tensor t, om_tensor *out) {
  OM_TRY { *out = om::wrap(unary(op, om::ref(t))); }
  OM_END
}

const char *om_binary(int64_t op, om_tensor a, om_tensor b, om_tensor *out) {
  OM_TRY { *out = om::wrap(binary(op, om::ref(a), om::ref(b))); }
  OM_END
}

const char *om_scalar(int64_t op, om_tensor t, double v, om_tensor *out) {
  OM_TRY { *out = om::wrap(with_scalar(op, om::ref(t), scalar_for(om::ref(t), v))); }
  OM_END
}

const char *om_sum_dim(om_tensor t, int64_t dim, int keep, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::sum(om::ref(t), dim, keep != 0)); }
  OM_END
}

const char *om_clamp(om_tensor t, double lo, double hi, om_tensor *out) {
  OM_TRY {
    const at::Tensor &x = om::ref(t);
    *out = om::wrap(at::clamp(x, scalar_for(x, lo), scalar_for(x, hi)));
  }
  OM_END
}

const char *om_reshape(om_tensor t, const int64_t *dims, int64_t n, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::reshape(om::ref(t), om::shape(dims, n))); }
  OM_END
}

const char *om_narrow(om_tensor t, int64_t dim, int64_t start, int64_t length, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::narrow(om::ref(t), dim, start, length)); }
  OM_END
}

const char *om_gather(om_tensor t, int64_t dim, om_tensor index, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::gather(om::ref(t), dim, om::ref(index))); }
  OM_END
}

const char *om_embedding(om_tensor w, om_tensor ids, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::embedding(om::ref(w), om::ref(ids))); }
  OM_END
}

const char *om_where(om_tensor cond, om_tensor a, om_tensor b, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::where(om::ref(cond), om::ref(a), om::ref(b))); }
  OM_END
}

const char *om_masked_fill(om_tensor t, om_tensor mask, double v, om_tensor *out) {
  OM_TRY { *out = om::wrap(at::masked_fill(om::ref(t), om::ref(mask), scalar_for(om::ref(t), v))); }
  OM_END
}

const char *om_cat(om_tensor *ts, int64_t n, int64_t dim, om_tensor *out) {
  OM_TRY {
    std::vector<at::Tensor> list;
    list.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) list.push_back(om::ref(ts[i]));
    *out = om::wrap(at::cat(list, dim));
  }
  OM_END
}

const char *om_to_dtype(om_tensor t, int64_t dtype, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::ref(t).to(om::scalar_type(dtype))); }
  OM_END
}

const char *om_to_device(om_tensor t, int64_t device_kind, int64_t device_index, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::ref(t).to(om::device(device_kind, device_index))); }
  OM_END
}

const char *om_copy_(om_tensor t, om_tensor src) {
  OM_TRY { om::ref(t).copy_(om::ref(src)); }
  OM_END
}

const char *om_add_(om_tensor t, om_tensor x, double alpha) {
  OM_TRY { om::ref(t).add_(om::ref(x), scalar_for(om::ref(t), alpha)); }
  OM_END
}

const char *om_fill_(om_tensor t, double v) {
  OM_TRY { om::ref(t).fill_(scalar_for(om::ref(t), v)); }
  OM_END
}

}  // extern "C"
