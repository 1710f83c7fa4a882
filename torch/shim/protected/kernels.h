// The kernels of cuda/, compiled as C++.
#pragma once

namespace om {

// run_kernel runs the blocks of a kernel one after another with the arguments that args points to. A block has one thread or, if
// OPENMANUS_PROTECTED_THREADS is set, as many as threads says. Error: no such kernel.
void run_kernel(const char *name, const unsigned grid[3], unsigned threads, void **args);

}  // namespace om
