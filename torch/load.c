// Loads the native libraries when they are first needed.
//
// A program that links to libtorch maps and initialises 450 MB before main, also for commands that never compute. So
// the program does not link to the native libraries. Each of their functions (functions.h) is defined here as an entry point
// that jumps to the address in its pointer, and om_load fills the pointers. The linker satisfies gotorch's own -l
// flags with the empty archives of the folder link.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

// The initial target of every pointer.
__attribute__((used)) static void om_not_loaded(void) {
  fputs("openmanus: internal error: a function of the native libraries was called before they were loaded\n", stderr);
  abort();
}

// An entry point keeps the arguments and the stack as they are, so it fits any signature.
#define ENTRY(name)                                                             \
  __attribute__((visibility("hidden"))) void *om_address_of_##name = (void *)om_not_loaded; \
  __asm__(".pushsection .text\n"                                                \
          ".globl " #name "\n"                                                  \
          ".hidden " #name "\n"                                                 \
          ".type " #name ", @function\n" #name ":\n"                            \
          ".cfi_startproc\n"                                                    \
          "  jmp *om_address_of_" #name "(%rip)\n"                              \
          ".cfi_endproc\n"                                                      \
          ".size " #name ", .-" #name "\n"                                      \
          ".popsection\n");
#define OM_SHIM(name) ENTRY(name)
#define OM_GOTORCH(name) ENTRY(name)
#include "functions.h"
#undef OM_SHIM
#undef OM_GOTORCH

// gotorch sets the number of threads in its package initialisation. Package torch sets it later, for its own threads.
void SetNumThreads(int32_t n) { (void)n; }

struct function {
  const char *name;
  void **address;
};

static const struct function shim[] = {
#define OM_SHIM(name) {#name, &om_address_of_##name},
#include "functions.h"
#undef OM_SHIM
};

static const struct function gotorch[] = {
#define OM_GOTORCH(name) {#name, &om_address_of_##name},
#include "functions.h"
#undef OM_GOTORCH
};

static char *last_error(void) {
  const char *why = dlerror();
  return strdup(why == NULL ? "unknown reason" : why);
}

// open_library loads a library by the run paths of the program and LD_LIBRARY_PATH. A release carries copies of the C++
// runtime libraries under other names, for systems that have none or an older one than the library needs.
static void *open_library(const char *library) {
  void *l = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (l != NULL) return l;
  char *why = last_error();
  int runtime = strstr(why, "libstdc++.so.6") != NULL || strstr(why, "libgcc_s.so.1") != NULL;
  free(why);
  if (runtime) {
    // The later search for libstdc++.so.6 finds these by their soname.
    dlopen("bundled-libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL);
    dlopen("bundled-libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
  }
  return dlopen(library, RTLD_NOW | RTLD_GLOBAL);
}

static char *resolve(const char *library, const struct function *functions, size_t n) {
  void *l = open_library(library);
  if (l == NULL) return last_error();
  for (size_t i = 0; i < n; i++) {
    void *address = dlsym(l, functions[i].name);
    if (address == NULL) return last_error();
    *functions[i].address = address;
  }
  return NULL;
}

char *om_load(void) {
  char *why = resolve("libopenmanus_torch.so", shim, sizeof shim / sizeof *shim);
  return why != NULL ? why : resolve("libcgotorch.so", gotorch, sizeof gotorch / sizeof *gotorch);
}

// libtorch allocates every tensor with malloc, and glibc returns freed blocks of more than 128 KiB to the kernel: each
// operation then causes page faults on memory that the previous one has just freed. Successive steps allocate tensors of
// the same sizes, so freed memory is kept. The settings apply to arenas made later, so they are made before main.
__attribute__((constructor)) static void keep_memory(void) {
  mallopt(M_ARENA_MAX, 1);  // the thread that frees memory is often not the one that allocates next
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc accepts; larger blocks are still returned
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}
