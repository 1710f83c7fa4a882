package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func sftCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "sft",
		Usage:     "train on recorded trajectories only",
		ArgsUsage: "[CONFIG.toml]",
		Description: "Takes the files of train: it does the supervised epochs of [sft] as a run of its own and stops\n" +
			"where train's warm start ends. It plays val_tasks and expert_tasks; without them no server is needed,\n" +
			"nor an [[env]] where sft.files are all there is.\n" +
			"With --from-dump it learns from the episodes of a dump that ended in success, or as\n" +
			"sft.dump_min_reward says.",
		Flags: trainFlags(), // whose weights played the dump is nothing to it: there is no --off-policy
	}, 1, runSFT)
}

// parseSFT returns the configuration of `openmanus sft`, which takes train's
// flags: the same files describe both, and sft stops where train's warm start
// ends.
func (s *State) parseSFT(c *cli.Context) (configs.Config, error) {
	cfg, err := s.parseTrain(c)
	if err == nil && cfg.SFT.Epochs == 0 {
		return cfg, errext.With(errext.Input, "set sft.epochs to at least 1, in the file or with --set sft.epochs=1",
			errors.New("sft.epochs is 0: nothing to train"))
	}
	return cfg, err
}

func runSFT(ctx context.Context, s *State, c *cli.Context) error {
	cfg, err := s.parseSFT(c)
	if err != nil {
		return err
	}
	suffix := "-sft" // train of the same file has a folder of its own
	if cfg.Data.FromDump != "" {
		suffix = "-dump-sft"
	}
	cfg.Trainer.Experiment = experimentName(cfg) + suffix
	return s.fit(ctx, cfg, supervised)
}

// mode is which of its algorithms a trainer runs.
type mode int

const (
	reinforced mode = iota
	supervised
)

func (m mode) fit(ctx, soft context.Context, t *algo.Trainer) error {
	if m == supervised {
		return t.FitSFT(ctx, soft)
	}
	return t.Fit(ctx, soft)
}
