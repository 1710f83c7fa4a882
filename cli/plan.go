package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/plan"
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
			&cli.IntFlag{Name: "processes", Value: 1, Usage: "plan for `N` processes on each machine (docs/distributed.md)"},
			&cli.IntFlag{Name: "machines", Value: 1, Usage: "plan for processes on `N` machines"},
			&cli.Float64Flag{Name: "memory", Usage: "plan for machines with this many `GB` (10^9 bytes), or GPUs with this many each, instead of the free memory of this machine"},
			jsonFlag()),
	}, 0, 1, runPlan)
}

func runPlan(ctx context.Context, s *State, c *cli.Context) error {
	var f flagFaults
	if c.IsSet("memory") && !(c.Float64("memory") > 0) {
		f.add("memory", "must be above 0")
	}
	for _, name := range []string{"processes", "machines"} {
		if c.Int(name) < 1 {
			f.add(name, "must be at least 1")
		}
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
	p, planErr := r.Plan(ctx, run.Layout{Processes: c.Int("processes"), Machines: c.Int("machines")}, int64(1e9*c.Float64("memory")))
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
		fmt.Errorf("the run needs %s, and %s are available", bytesText(p.Compared()), bytesText(p.Available)))
}

// planText returns a prediction as a table.
func planText(p *run.Plan) string {
	var b strings.Builder
	var rows [][]string
	row := func(cells ...string) { rows = append(rows, cells) }
	parts := func(list []plan.Part, needed int64) {
		for _, part := range list {
			row(part.Name, bytesText(part.Bytes))
		}
		row("together", bytesText(needed))
	}
	all, of := p.Processes*p.Machines, ""
	if all > 1 {
		of = " of each process"
	}
	if p.Workers != nil {
		parts(p.Workers.Parts, p.Workers.Needed)
		fmt.Fprintf(&b, "memory of each process that only plays (the last %d)\n%s\n", p.Workers.Processes, textwidth.Table("lr", rows))
		rows, of = nil, " of each process that trains"
	}
	parts(p.Parts, p.Needed)
	if p.Processes > 1 {
		row("all processes of a machine", bytesText(p.Machine))
	}
	if p.Available > 0 {
		row("available", bytesText(p.Available))
	}
	fmt.Fprintf(&b, "memory%s during the %s\n%s", of, p.Phase, textwidth.Table("lr", rows))
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
	if all > 1 {
		fmt.Fprintf(&b, "a process plays %d of them and trains on %d; the exchanges between the %d processes are not included\n", step.Played, step.Rows, all)
	}
	b.WriteString(textwidth.Table("lrt", rows))
	return b.String()
}
