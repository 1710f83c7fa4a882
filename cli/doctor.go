package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/doctor"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

func doctorCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "doctor",
		Usage: "examine whether this machine can train, and say what to do if not",
		Description: "Examines processor, memory, libraries, GPU, disks, limits, ports, Python, locale, clock and proxies. Each is ok,\n" +
			"warn (training works, but slower or only in part) or fail. With a fail the exit code is not 0.",
		Flags: []cli.Flag{jsonFlag()},
	}, 0, 0, runDoctor)
}

func runDoctor(ctx context.Context, s *State, c *cli.Context) error {
	cfg := schema.Defaults()
	findings := doctor.Examine(ctx, doctor.Machine{
		Getenv: s.Getenv, Environ: s.Environ(), Now: s.Now(),
		Runs: s.Path(cfg.Trainer.OutputDir), Cache: run.HubSettings(&s.Host).Cache,
		Episodes: cfg.Agent.MaxWorkers, Ports: []int{supervise.DefaultBasePort},
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := s.printWrapped(findings, doctor.Text(findings), c.Bool("json")); err != nil {
		return err
	}
	if n := doctor.Failed(findings); n > 0 {
		return errext.With(errext.Check, "the lines below each fail say what to do", fmt.Errorf("%d of %d examinations failed", n, len(findings)))
	}
	return nil
}
