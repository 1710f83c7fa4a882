package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
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

func runSFT(ctx context.Context, s *State, c *cli.Context) error {
	return s.train(ctx, c, (*run.Run).SFT)
}
