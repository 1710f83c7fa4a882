package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

func planCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "plan",
		Usage:     "predict the memory and the time of a training step, without loading the model",
		ArgsUsage: "[CONFIG.toml]",
		Description: "Small models with the widths of the configured one are measured on this machine for a few seconds. The command\n" +
			"exits with 8 if the run does not fit, and names settings with which it does. See docs/memory.md.",
		Flags: append(configFlags(""),
			&cli.StringFlag{Name: "device", Usage: "auto, cpu, cuda or cuda:N; overrides model.device"},
			&cli.Float64Flag{Name: "memory", Usage: "plan for a device with this many `GB` (10^9 bytes) instead of the free memory of this machine"},
			jsonFlag()),
	}, 0, 1, runPlan)
}

func runPlan(ctx context.Context, s *State, c *cli.Context) error {
	var f flagFaults
	if c.IsSet("memory") && !(c.Float64("memory") > 0) {
		f.add("memory", "must be above 0")
	}
	if err := f.err(); err != nil {
		return err
	}
	cfg, err := s.parseTrain(c)
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, cfg, s.Host)
	if err != nil {
		return err
	}
	p, planErr := r.Plan(ctx, int64(1e9*c.Float64("memory")))
	if p == nil {
		return planErr
	}
	if err := s.printResult(p, planText(p), c.Bool("json")); err != nil {
		return err
	}
	if planErr != nil || p.Fits() {
		return planErr
	}
	var hints []string
	for _, change := range p.Changes {
		hints = append(hints, change.Key+" = "+change.Value)
	}
	return errext.With(errext.Check, "it fits with "+strings.Join(hints, ", "),
		fmt.Errorf("the run needs %s, and %s are available", bytesText(p.Needed), bytesText(p.Available)))
}

// planText returns a prediction as a table.
func planText(p *run.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory during the update\n")
	for _, part := range p.Parts {
		fmt.Fprintf(&b, "  %-40s %10s\n", part.Name, bytesText(part.Bytes))
	}
	fmt.Fprintf(&b, "  %-40s %10s\n", "together", bytesText(p.Needed))
	if p.Available > 0 {
		fmt.Fprintf(&b, "  %-40s %10s\n", "available", bytesText(p.Available))
	} else {
		fmt.Fprintf(&b, "  the memory of the GPU is unknown: give --memory to compare\n")
	}
	s := p.Step
	fmt.Fprintf(&b, "\ntime of a step, at most: %d episodes of %d tokens, %d of them sampled, without environments and scoring\n", s.Episodes, s.Context, s.Sampled)
	total := 0.0
	for _, phase := range p.Phases {
		fmt.Fprintf(&b, "  %-40s %10s   %d tokens at %.3g/s\n", phase.Name, clock(time.Duration(phase.Seconds*float64(time.Second))), phase.Tokens, phase.PerSecond)
		total += phase.Seconds
	}
	fmt.Fprintf(&b, "  %-40s %10s\n", "together", clock(time.Duration(total*float64(time.Second))))
	if p.Steps > 0 {
		fmt.Fprintf(&b, "  %-40s %10s\n", fmt.Sprintf("%d steps", p.Steps), clock(time.Duration(total*float64(p.Steps)*float64(time.Second))))
	}
	return b.String()
}
