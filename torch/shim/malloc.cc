// Keeps freed memory in the process.
//
// libtorch allocates every tensor with malloc, and glibc returns freed blocks of more than 128
// KiB to the kernel: each operation then causes page faults on memory that the previous one has
// just freed. Successive steps allocate tensors of the same sizes, so kept memory is reused.
#include <malloc.h>

namespace {

struct KeepMemory {
  KeepMemory() {
    // One arena, because the thread that frees memory is often not the one that allocates next.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc accepts; larger blocks are still returned
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
  }
};

const KeepMemory keep_memory;

}  // namespace
