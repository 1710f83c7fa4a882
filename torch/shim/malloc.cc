// Keeps freed memory in the process.
//
// libtorch asks malloc for every tensor, and glibc gives blocks of more than 128 KiB back to the kernel when they are
// freed: each operation then pays for page faults on memory that the one before it had just released. Tensors of a step
// have the sizes of those of the step before, so memory that is kept is used again.
#include <malloc.h>

namespace {

struct KeepMemory {
  KeepMemory() {
    // One arena: the thread that frees is often not the one that allocates next.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes; larger blocks still come and go
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
  }
};

const KeepMemory keep_memory;

}  // namespace
