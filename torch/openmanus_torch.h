/*
 * The C interface between package torch (Go) and libopenmanus_torch (C++ on libtorch).
 *
 * Conventions
 *   - Plain C types only; no enum or struct of libtorch. A change of the meaning or the signature
 *     of anything here requires a new OM_ABI, which package torch compares when it loads the library.
 *   - A function that can fail returns const char*: NULL on success, else a message that the caller
 *     frees with om_free_string. Outputs are the trailing pointers and are written only on success.
 *   - om_tensor is an at::Tensor* on the C++ heap. Each one written to an `out` is a new handle that the
 *     caller frees once with om_free; several handles may share one storage. Optional operands may be NULL.
 *   - Shapes are (const int64_t* dims, int64_t n): n sizes, outermost first. A dim argument may be
 *     negative and then counts from the end. Sizes of memory are bytes.
 *   - Nothing keeps a pointer into the caller's memory after it returned.
 *   - Grad mode and the number of threads are state of the calling OS thread.
 */
#ifndef OPENMANUS_TORCH_H
#define OPENMANUS_TORCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------------------------------ */

#define OM_ABI 5

/* The number OM_ABI that this library was compiled with. */
int om_abi_version(void);
/* Hash of the shim's sources; build.sh makes this function. Static storage. */
const char *om_source_hash(void);
/* Release of libtorch whose headers the shim was compiled with, as "2.11.0". Static storage. */
const char *om_libtorch_compiled(void);
/* Release of the loaded libtorch, as "2.11.0". Static storage. */
const char *om_libtorch_loaded(void);

/* ---- tensors and memory (core.cc) ----------------------------------------------------------------- */

typedef void *om_tensor;

/* Element types. */
#define OM_F32 0
#define OM_F64 1
#define OM_BF16 2
#define OM_F16 3
#define OM_I64 4
#define OM_I32 5
#define OM_U8 6
#define OM_BOOL 7
#define OM_I8 8

/* Kinds of device; a device is (kind, index). OM_PROTECTED is a device for tests, see shim/protected. */
#define OM_CPU 0
#define OM_CUDA 1
#define OM_PROTECTED 2

#define OM_MAX_DIMS 8

typedef struct {
  int64_t ndim;
  int64_t dims[OM_MAX_DIMS];
  int64_t dtype;       /* OM_F32 … OM_I8 */
  int64_t device_kind; /* OM_CPU … OM_PROTECTED */
  int64_t device_index;
} om_info_t;

/* Frees a message returned by a function of this library. */
void om_free_string(const char *s);

/* Frees n handles in one call. */
void om_free(om_tensor *ts, int64_t n);

/* Adds a handle made by another library (gotorch) to the count of handles; om_free frees it. */
void om_track(om_tensor t);

/* The number of live handles, and the bytes of the distinct storages that they refer to. Storages that only the
 * autograd graph holds are not counted. */
void om_live(int64_t *tensors, int64_t *bytes);

/* Shape, element type and device. Error: more than OM_MAX_DIMS dimensions, or a type not listed above. */
const char *om_info(om_tensor t, om_info_t *out);

/* A tensor of the given shape with a copy of nbytes of row-major data. Error: nbytes does not fit the shape. */
const char *om_from_data(const void *data, int64_t nbytes, int64_t dtype, const int64_t *dims, int64_t n,
                         int64_t device_kind, int64_t device_index, om_tensor *out);

/* Copies t, converted to dtype, row-major to data. Error: nbytes is not numel × element size. */
const char *om_to_data(om_tensor t, int64_t dtype, void *data, int64_t nbytes);

/* The only element of t. Error: t does not have exactly one. */
const char *om_item(om_tensor t, double *out);

/* Uninitialised, and constant. */
const char *om_empty(int64_t dtype, const int64_t *dims, int64_t n, int64_t device_kind, int64_t device_index,
                     om_tensor *out);
const char *om_full(double value, int64_t dtype, const int64_t *dims, int64_t n, int64_t device_kind,
                    int64_t device_index, om_tensor *out);

/* ---- operations (ops.cc); broadcasting, types and gradients as in ATen ------------------------------ */

/* out = op(t). The reductions give a tensor without dimensions. */
#define OM_NEG 0
#define OM_EXP 1
#define OM_LOG 2
#define OM_SQRT 3
#define OM_ABS 4
#define OM_SQUARE 5
#define OM_NOT 6 /* logical; bool */
#define OM_ISFINITE 7 /* bool */
#define OM_CLONE 8 /* new storage, row-major, in the graph */
#define OM_CONTIGUOUS 9
#define OM_MAX 10
#define OM_MIN 11
#define OM_ALL 12 /* bool */
const char *om_unary(int64_t op, om_tensor t, om_tensor *out);

/* out = op(a, b). Comparisons and logic give bool. */
#define OM_MATMUL 0
#define OM_MINIMUM 1
#define OM_MAXIMUM 2
#define OM_NE 3
#define OM_LE 4
#define OM_GT 5
#define OM_GE 6
#define OM_AND 7
#define OM_OR 8
const char *om_binary(int64_t op, om_tensor a, om_tensor b, om_tensor *out);

/* out = op(t, v). A whole v keeps an integer tensor integer. */
#define OM_ADD_S 0
#define OM_MUL_S 1
#define OM_LT_S 2
#define OM_LE_S 3
#define OM_GT_S 4
#define OM_GE_S 5
const char *om_scalar(int64_t op, om_tensor t, double v, om_tensor *out);

/* The sum along dim, which keep leaves with size 1. */
const char *om_sum_dim(om_tensor t, int64_t dim, int keep, om_tensor *out);

/* min(max(t, lo), hi). */
const char *om_clamp(om_tensor t, double lo, double hi, om_tensor *out);
/* x [...,I] · w [O,I]ᵀ + bias [O] or NULL → [...,O]. */
const char *om_linear(om_tensor x, om_tensor w, om_tensor bias, om_tensor *out);
/* x [N,O] += h [N,I] · w [O,I]ᵀ, in place; no gradient. On the CPU N is at most OM_SKINNY_ROWS. */
const char *om_linear_add_(om_tensor x, om_tensor h, om_tensor w);
/* The same elements in another shape (one size may be -1); a view where the strides allow it. */
const char *om_reshape(om_tensor t, const int64_t *dims, int64_t n, om_tensor *out);
/* A view of the elements start … start+length-1 of dim. */
const char *om_narrow(om_tensor t, int64_t dim, int64_t start, int64_t length, om_tensor *out);
/* out has the shape of index (int64) and takes t's elements along dim. */
const char *om_gather(om_tensor t, int64_t dim, om_tensor index, om_tensor *out);
/* Rows of w [V,D] chosen by ids [...] (int64 or int32) → [...,D]. Error: an id outside 0 … V-1. */
const char *om_embedding(om_tensor w, om_tensor ids, om_tensor *out);
/* Elements of a where cond (bool) is true, else of b. */
const char *om_where(om_tensor cond, om_tensor a, om_tensor b, om_tensor *out);
/* v where mask (bool) is true, else the element of t. */
const char *om_masked_fill(om_tensor t, om_tensor mask, double v, om_tensor *out);
/* Concatenates n tensors along dim. */
const char *om_cat(om_tensor *ts, int64_t n, int64_t dim, om_tensor *out);
/* t in another element type, or on another device; shares t's storage if nothing changes. */
const char *om_to_dtype(om_tensor t, int64_t dtype, om_tensor *out);
const char *om_to_device(om_tensor t, int64_t device_kind, int64_t device_index, om_tensor *out);

/* In place on t. copy converts types and devices; add is t += alpha·x. */
const char *om_copy_(om_tensor t, om_tensor src);
const char *om_add_(om_tensor t, om_tensor x, double alpha);
const char *om_fill_(om_tensor t, double v);

/* ---- autograd (autograd.cc) ------------------------------------------------------------------------ */

/* Turns recording on (1) or off (0) for this OS thread. *was receives the previous state. */
const char *om_set_grad_enabled(int on, int *was);
const char *om_requires_grad(om_tensor t, int *out);
/* Error: t is not a leaf, or its type has no gradient. */
const char *om_set_requires_grad(om_tensor t, int on);
/* Accumulates gradients into the leaves that t came from. grad has t's shape, or is NULL for a t with one element. */
const char *om_backward(om_tensor t, om_tensor grad);
/* The accumulated gradient of a leaf, sharing its storage; NULL if it has no gradient. */
const char *om_grad(om_tensor t, om_tensor *out);
/* Drops the gradient of t, or sets it to grad (same shape, type and device) without a copy. */
const char *om_set_grad(om_tensor t, om_tensor grad);

/* ---- threads and devices (device.cc) ----------------------------------------------------------------- */

/* Threads that one operation started from this OS thread may use. n ≥ 1. */
const char *om_set_num_threads(int64_t n);
int64_t om_num_threads(void);

/* For tests of the pool of threads (pool.cc): a parallel region of n chunks. Chunk i appends the digits 1, 2 and 3 to out[i] in a nested
 * region, or fails if i is bad. */
const char *om_share_out(int64_t n, int64_t bad, int64_t *out);

/* Loads the library of a kind of device if it is not yet loaded, libtorch_cuda or libopenmanus_protected, and counts the
 * devices. Error: the library or a device is missing. */
const char *om_device_count(int64_t device_kind, int64_t *out);
/* Makes a CUDA device current on this OS thread; the other kinds have one device. */
const char *om_use_device(int64_t device_kind, int64_t device_index);

/* Compiles the kernels of shim/cuda for an architecture, such as "sm_90", by libnvrtc; bytes receives the size of the cubin. */
const char *om_compile_kernels(const char *architecture, int64_t *bytes);
/* Lets CUDA devices use the kernels. Error: libnvrtc or NVIDIA's driver is missing. */
const char *om_use_kernels(void);

/* Memory of a device other than the CPU, in bytes. */
typedef struct {
  int64_t total;     /* of the device */
  int64_t free;      /* that this process may still allocate */
  int64_t allocated; /* by tensors of this process */
  int64_t peak;      /* the largest `allocated` since the previous call */
} om_memory;
const char *om_device_memory(int64_t device_kind, int64_t device_index, om_memory *out);
/* Marks the begin (1) or the end (0) of a job on the stream of a device other than the CPU, without a wait. */
const char *om_mark_job(int64_t device_kind, int64_t device_index, int begins);

/* The time in seconds between the marks of the jobs of this OS thread since the previous call, as the device measured it. Waits for
 * the last job that has ended; the running job counts later. */
const char *om_job_seconds(double *out);

/* Returns the memory that the allocator of a kind of device holds for later tensors to the device. */
const char *om_empty_cache(int64_t device_kind);

/* ---- graphs (graph.cc) ------------------------------------------------------------------------------- */

/* Operations of a device that were recorded, to be submitted together. */
typedef void *om_graph;

/* From om_graph_begin to om_graph_end, the operations of this OS thread on a device are recorded instead of run, if record is not
 * 0; otherwise they run, on the stream of recordings, so that libraries prepare themselves for it. Between them there must be no
 * copy from or to the host. om_graph_end must be called also after an error between them. The graph uses the addresses of its
 * operands. Tensors that are made in the recording have memory of the graph, which graphs of an OS thread share: their elements
 * are valid from a launch to the next launch of another graph. */
const char *om_graph_begin(int64_t device_kind, int64_t device_index, int record, om_graph *out);
const char *om_graph_end(om_graph g);
const char *om_graph_launch(om_graph g);
void om_graph_free(om_graph g);

/* Copies nbytes from the host into t, which is contiguous and has that size. */
const char *om_upload_into(om_tensor t, const void *data, int64_t nbytes);

/* A hash of the addresses and the sizes of tensors. */
const char *om_addresses(const om_tensor *ts, int64_t n, uint64_t *out);

/* ---- the protected device (device.cc) ---------------------------------------------------------------- */

/* What the protected device has done since it was loaded: operations (views and allocations are none), copies from the
 * host, and copies and single elements to the host. */
typedef struct {
  int64_t operations, uploads, downloads;
} om_counts;
/* Error: the protected device is not loaded. */
const char *om_protected_counts(om_counts *out);
/* Starts a trace of the protected device's operations (1) or ends it (0). names receives the names of the trace, each followed by
 * a newline; they are valid until the next trace starts. */
const char *om_protected_trace(int on, const char **names);

#ifdef __cplusplus
}
#endif

#include "openmanus_torch_dist.h"
#include "openmanus_torch_fused.h"

#endif
