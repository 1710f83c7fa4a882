package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
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
	if err := s.printWrapped(p, planText(p), c.Bool("json")); err != nil {
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
	var rows [][]string
	row := func(cells ...string) { rows = append(rows, cells) }
	for _, part := range p.Parts {
		row(part.Name, bytesText(part.Bytes))
	}
	row("together", bytesText(p.Needed))
	if p.Available > 0 {
		row("available", bytesText(p.Available))
	}
	b.WriteString("memory during the update\n" + textwidth.Table("lr", rows))
	if p.Available == 0 {
		b.WriteString("  the memory of the GPU is unknown: give --memory to compare\n")
	}
	step, total := p.Step, 0.0
	seconds := func(s float64) string { return clock(time.Duration(s * float64(time.Second))) }
	rows = nil
	for _, phase := range p.Phases {
		row(phase.Name, seconds(phase.Seconds), fmt.Sprintf("%d tokens at %.3g/s", phase.Tokens, phase.PerSecond))
		total += phase.Seconds
	}
	row("together", seconds(total), "")
	if p.Steps > 0 {
		row(textwidth.Count(p.Steps, "step"), seconds(total*float64(p.Steps)), "")
	}
	fmt.Fprintf(&b, "\ntime of a step, at most: %s of %d tokens, %d of them sampled, without environments and scoring\n",
		textwidth.Count(step.Episodes, "episode"), step.Context, step.Sampled)
	b.WriteString(textwidth.Table("lrt", rows))
	return b.String()
}
