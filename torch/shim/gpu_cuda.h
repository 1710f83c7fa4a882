// The back end of NVIDIA GPUs for the kernels of cuda/: NVRTC compiles them, libcuda loads and launches them. Both are opened at run
// time, so neither is needed to build or to compute on a CPU.
#pragma once

#include <string>

namespace om::gpu {

// compile returns the kernels as a cubin for an architecture, such as sm_90. Error: libnvrtc is missing, or the architecture is not
// known to it.
std::string compile(const std::string &architecture);

// use_cuda sets the back end of CUDA devices. Error: libcuda or libnvrtc is missing.
void use_cuda();

}  // namespace om::gpu
