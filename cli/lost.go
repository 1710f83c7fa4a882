package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
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

// maxFailed is the value of maxLostFlag as rollout.Options has it, where 0
// means that all may fail and not that none may.
func maxFailed(share float64) float64 { return max(share, math.SmallestNonzeroFloat64) }

// tally counts episodes by how they ended.
type tally map[data.Outcome]int

func (t tally) add(ep *data.Episode) { t[ep.Outcome]++ }

func (t tally) episodes() int {
	n := 0
	for _, k := range t {
		n += k
	}
	return n
}

// lost are those that failed for reasons outside of them.
func (t tally) lost() int {
	n := 0
	for outcome, k := range t {
		if !outcome.Trainable() {
			n += k
		}
	}
	return n
}

// String says how many ended how: success 3, turn_limit 9.
func (t tally) String() string {
	named := map[string]int{}
	for outcome, n := range t {
		named[string(outcome)] = n
	}
	var parts []string
	for _, name := range sortedKeys(named) {
		parts = append(parts, fmt.Sprintf("%s %d", name, named[name]))
	}
	return strings.Join(parts, ", ")
}
