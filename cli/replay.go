package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

func replayCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "replay",
		Usage:     "replay recorded episodes without a server, and report differences",
		ArgsUsage: "FILE",
		Description: "FILE is a dump of rollout. Observations come from the dump, the recorded tokens are forced, and at every token\n" +
			"the sampler reports the token that it would have drawn. The exit code is 8 if an episode differs, and 3 if no\n" +
			"episode can be replayed.",
		Flags: append(flagsOf(replayKeys()),
			&cli.BoolFlag{Name: "no-model", Usage: "check requests, observations, rewards and masks only; for a dump of an endpoint, check texts instead of token ids"},
			&cli.IntFlag{Name: "episode", Value: -1, Usage: "replay only the episode of this index, from 0"},
			&cli.Float64Flag{Name: "margin", Value: 1e-4, Usage: "tokens within this log-prob margin count as near ties, not as differences: log-probs vary with the batch"},
			jsonFlag()),
	}, 1, 1, runReplay)
}

// replayKeys override the configuration that the dump recorded.
func replayKeys() []keyFlag {
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "model", Usage: "folder or .gguf file of the model that played; default: the path in the dump"}, keys: "model.path"},
		{flag: deviceFlag(), keys: "model.device"},
	}
}

func runReplay(ctx context.Context, s *State, c *cli.Context) error {
	cfg := schema.Defaults()
	o := run.ReplayOptions{Path: c.Args().First(), NoModel: c.Bool("no-model"), Episode: c.Int("episode"), Margin: c.Float64("margin")}
	var f flagFaults
	f.override(c, replayKeys(), &cfg, false)
	f.check(c, replayKeys(), &cfg)
	f.atLeast("episode", o.Episode, -1)
	if o.NoModel && cfg.Model.Path != "" {
		f.add("no-model", "--model is given as well: remove one of them")
	}
	if !(o.Margin >= 0 && o.Margin < 1) {
		f.add("margin", "%v is not allowed; allowed: 0 to 1", o.Margin)
	}
	if err := f.err(); err != nil {
		return err
	}
	r, err := s.openRun(ctx, cfg, replayKeys())
	if err != nil {
		return err
	}
	report, err := r.Replay(ctx, o)
	if err != nil {
		return err
	}
	switch err = s.printWrapped(report, report.String(), c.Bool("json")); {
	case err != nil:
	case report.Replayed == 0:
		err = errext.With(errext.Input, "docs/dumps.md lists the episodes that can be replayed", report.Nothing())
	case report.Differ > 0:
		err = errext.With(errext.Check, "", fmt.Errorf("%d of %d episodes differ from the recording", report.Differ, report.Replayed))
	}
	return err
}
