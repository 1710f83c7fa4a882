package torch

// #include "openmanus_torch.h"
import "C"

// cpuLevel is the instruction set that the fused kernels use: 4 is AMX, 3 AVX-512 with
// bfloat16 products, 2 AVX-512, 1 AVX2, 0 the baseline.
func cpuLevel() int { return int(C.om_cpu_level()) }

// limitCPULevel caps cpuLevel, for tests of the kernels of lower levels.
func limitCPULevel(level int) { C.om_set_cpu_level_limit(C.int64_t(level)) }
