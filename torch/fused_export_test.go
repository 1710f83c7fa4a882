package torch

// CPULevel, LimitCPULevel, ApplyKernels and Philox are for tests outside the package.
var (
	CPULevel      = cpuLevel
	LimitCPULevel = limitCPULevel
	ApplyKernels  = applyKernels
	Philox        = philox
)
