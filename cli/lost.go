package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
)

func maxLostFlag() cli.Flag {
	return &cli.Float64Flag{Name: "max-lost", Value: run.MaxFailedValidation, Usage: "share of the episodes that the infrastructure may lose before the command fails"}
}

// maxLost checks the value of maxLostFlag.
func (f *flagFaults) maxLost(share float64) {
	if !(share >= 0 && share < 1) {
		f.add("max-lost", "%v is not allowed; allowed: from 0 to below 1", share)
	}
}
