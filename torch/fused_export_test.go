package torch

// CPULevel, LimitCPULevel and Philox are for tests outside the package.
var (
	CPULevel      = cpuLevel
	LimitCPULevel = limitCPULevel
	Philox        = philox
)
