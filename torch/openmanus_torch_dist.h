/* Process groups of libopenmanus_torch (dist.cc). openmanus_torch.h includes this file; its conventions apply here.
 *
 * A group is `size` processes, numbered by rank from 0. Rank 0 opens a TCP store (c10d's TCPStore) through which the ranks find
 * each other. Collectives on CPU tensors run over c10d's ProcessGroupGloo, those on CUDA tensors over its ProcessGroupNCCL, which
 * libopenmanus_nccl makes before the first one. Every rank calls the same collectives in the same order with tensors of the same
 * shape and type. A group does one call at a time; only om_group_interrupt may run beside another.
 *
 * A collective that fails ends the group: its connections are closed, so that the other ranks fail at once, the ranks exchange
 * through the store which of them have noticed, and the message names those that have not. All later calls return this message.
 *
 * A collective on a CUDA tensor returns when it is submitted to the thread's stream. If it fails later, the elements of its result
 * are undefined; the next call of the group and the next copy of elements to the host on this thread return the message. */
#ifndef OPENMANUS_TORCH_DIST_H
#define OPENMANUS_TORCH_DIST_H

#include "openmanus_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *om_group;

/* A handle for rank `rank` of `size`, which om_group_join connects. The caller frees it once with om_group_free.
 * store_host, store_port: the address of the store. serve: 1 if this process opens the store, 0 if it connects to it.
 * prefix: prepended to the keys of the store; ranks with other prefixes are other groups. name: how messages of other ranks
 * describe this process. interface: the IP address of this machine at which the other ranks reach it.
 * timeout_ms ≥ 1: the limit of each collective. */
const char *om_group_new(int64_t rank, int64_t size, const char *store_host, int64_t store_port, int serve,
                         const char *prefix, const char *name, const char *interface, int64_t timeout_ms, om_group *out);

/* Connects to all other ranks, within limit_ms. Error: the port is in use; a rank does not come within the limit; two processes
 * have the same rank; ranks have different sizes; interrupted. */
const char *om_group_join(om_group g, int64_t limit_ms);

/* The name of the library that computes on tensors of a device. For a device other than the CPU it connects the devices of all
 * ranks, each of which must call it. If ranks share a device, ProcessGroupGloo computes on copies in host memory, and the text
 * names the ranks. The caller frees *out with om_free_string. */
const char *om_group_backend(om_group g, int64_t device_kind, int64_t device_index, const char **out);

/* Collectives on contiguous tensors of float32, float64, float16, bfloat16, int64, int32 or uint8, on the CPU or on the one device
 * of this rank. An unfit operand is an error that leaves the group usable, but the ranks that called the collective wait until their
 * time-out. */

/* t of rank root replaces t on all ranks. */
const char *om_group_broadcast(om_group g, om_tensor t, int64_t root);
/* The sum of t over the ranks replaces t, with the same bits on all ranks. */
const char *om_group_all_reduce(om_group g, om_tensor t);
/* in [size·n,...]; out [n,...] receives part `rank` of the sum of `in` over the ranks. */
const char *om_group_reduce_scatter(om_group g, om_tensor out, om_tensor in);
/* in [n,...]; out [size·n,...] receives the tensors of all ranks in the order of the ranks. `in` may be a view of out. */
const char *om_group_all_gather(om_group g, om_tensor out, om_tensor in);
/* Returns when all ranks have called it. It does not wait for devices. */
const char *om_group_barrier(om_group g);

/* Ends the group: the call in progress and all later calls fail. It does not wait. */
void om_group_interrupt(om_group g);
/* Waits until all ranks have called it, so that the end of one rank does not break collectives of others. Error: a rank does not
 * call it within the limit. */
const char *om_group_leave(om_group g);
/* Closes the connections, and the store if this process opened it. */
void om_group_free(om_group g);

#ifdef __cplusplus
}
#endif

#endif
