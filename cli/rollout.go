package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func rolloutCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "rollout",
		Usage:     "play tasks and write every episode, token by token, to a file",
		ArgsUsage: "[CONFIG.toml]",
		Flags:     rolloutFlags(),
	}, 0, 1, runRollout)
}

// rolloutOptions are the command line of `openmanus rollout`.
type rolloutOptions struct {
	configs.Config
	run.RolloutOptions
}

func rolloutFlags() []cli.Flag {
	return append(playFlags(),
		&cli.StringFlag{Name: "dump", Usage: "`FILE` for the episodes: a header, then one JSON line each; compressed if the name ends in .zst"},
		&cli.BoolFlag{Name: "continue", Usage: "append to an existing dump: play only the episodes that the dump lacks"},
		&cli.BoolFlag{Name: "retry-lost", Usage: "with --continue: remove the episodes lost to failures of servers or the engine from the dump, and play them again"},
		&cli.BoolFlag{Name: "force", Usage: "replace a dump that exists"})
}

// parseRollout reads the flags of rolloutFlags.
func (s *State) parseRollout(c *cli.Context) (rolloutOptions, error) {
	f := flagFaults{}
	cfg, err := s.parsePlay(c, &f)
	o := rolloutOptions{
		Config:         cfg,
		RolloutOptions: run.RolloutOptions{PlayOptions: playOptions(c), Dump: c.String("dump"), Continue: c.Bool("continue"), RetryLost: c.Bool("retry-lost")},
	}
	if err != nil {
		return o, err
	}
	f.need("dump", o.Dump, "the file for the episodes")
	if o.Continue && c.Bool("force") {
		f.add("continue", "--force, which replaces the dump, is given as well: remove one of them")
	}
	if o.RetryLost && !o.Continue {
		f.add("retry-lost", "it applies to an existing dump: add --continue")
	}
	return o, f.err()
}

func runRollout(ctx context.Context, s *State, c *cli.Context) error {
	o, err := s.parseRollout(c)
	return s.onRanks(ctx, c, c.Args().First(), o.Config, err, func() error { return s.rollout(ctx, c, o) })
}

func (s *State) rollout(ctx context.Context, c *cli.Context, o rolloutOptions) error {
	if err := s.CheckOutput(o.Dump, c.Bool("force") || o.Continue); err != nil {
		if known, ok := errors.AsType[*errext.Error](err); ok && known.Code == errext.Usage {
			known.Hint = "give --continue to append to the dump, --force to replace it, or another name"
		}
		return err
	}
	r, err := s.openRun(ctx, o.Config, playKeys())
	if err != nil {
		return err
	}
	result, err := r.Rollout(ctx, o.RolloutOptions)
	if result == nil {
		return err
	}
	switch result.Dump {
	case "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1": // standard output has the dump
		return err
	}
	return errors.Join(err, s.printWrapped(result, result.String(), c.Bool("json")))
}
