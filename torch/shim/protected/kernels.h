// The kernels of cuda/, compiled as C++.
#pragma once

namespace om {

// run_serially runs the blocks of a kernel one after another with the arguments that args points to. Error: no such kernel.
void run_serially(const char *name, const unsigned grid[3], void **args);

}  // namespace om
