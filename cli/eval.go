package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func evalCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:        "eval",
		Usage:       "play tasks and report how many were solved",
		ArgsUsage:   "[CONFIG.toml]",
		Flags:       evalFlags(),
		Subcommands: []*cli.Command{compareCommand(s)},
	}, 0, 1, runEval)
}

// evalOptions are the command line of `openmanus eval`.
type evalOptions struct {
	configs.Config
	run.EvalOptions
}

func evalFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "episodes", Usage: "`FILE` for the episodes, as openmanus rollout writes them, without the HTTP exchanges"},
		&cli.StringFlag{Name: "out", Usage: "`FILE` for the result as JSON, for eval compare"},
		&cli.BoolFlag{Name: "force", Usage: "replace files of --out and --episodes that exist"},
		&cli.BoolFlag{Name: "dry-run", Usage: "open everything and print the contract, but play nothing"},
	}, playFlags()...)
}

// parseEval reads the flags of evalFlags.
func (s *State) parseEval(c *cli.Context) (evalOptions, error) {
	f := flagFaults{}
	cfg, err := s.parsePlay(c, &f)
	o := evalOptions{
		Config:      cfg,
		EvalOptions: run.EvalOptions{PlayOptions: playOptions(c), Episodes: c.String("episodes"), DryRun: c.Bool("dry-run")},
	}
	if err != nil {
		return o, err
	}
	return o, f.err()
}

func runEval(ctx context.Context, s *State, c *cli.Context) error {
	o, err := s.parseEval(c)
	return s.onRanks(ctx, c, c.Args().First(), o.Config, err, func() error { return s.eval(ctx, c, o) })
}

func (s *State) eval(ctx context.Context, c *cli.Context, o evalOptions) error {
	out, force, asJSON := c.String("out"), c.Bool("force"), c.Bool("json")
	for _, file := range []string{out, o.Episodes} {
		if err := s.CheckOutput(file, force); err != nil {
			return err
		}
	}
	version, err := s.version()
	if err != nil {
		return err
	}
	o.Program = version.program()
	r, err := s.openRun(ctx, o.Config, playKeys())
	if err != nil {
		return err
	}
	result, err := r.Eval(ctx, o.EvalOptions)
	if err != nil || s.rank > 0 {
		return err
	}
	if o.DryRun {
		return s.printResult(result.Contract, result.Contract.String(), asJSON)
	}
	if out != "" {
		text, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		if err := s.WriteFile(out, append(text, '\n'), force); err != nil {
			return err
		}
	}
	return s.printResult(result, result.String(), asJSON)
}

// evalAgain returns the arguments of `openmanus eval` that repeat a run's
// validation in one environment. Without validation tasks, eval plays the
// training tasks. config is the file in the run's folder.
func evalAgain(config, actor string, cfg configs.Config, e configs.Env) []string {
	words := []string{"--model", errext.ShellQuote(actor)}
	if len(cfg.Env) > 1 {
		words = append(words, "--env", e.Called())
	}
	if len(e.ValTasks) == 0 {
		words = append(words, "--split", "train")
	}
	return append(words, errext.ShellQuote(config))
}
