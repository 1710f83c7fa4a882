package torch

// CPULevel, LimitCPULevel, ApplyKernels, CompileKernels and Philox are for tests outside the package.
var (
	CPULevel       = cpuLevel
	LimitCPULevel  = limitCPULevel
	ApplyKernels   = applyKernels
	CompileKernels = compileKernels
	Philox         = philox
)
