package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func scoreCommand(s *State) *cli.Command {
	keys := flagsOf(scoreKeys())
	return leaf(s, &cli.Command{
		Name:      "score",
		Usage:     "score the replies of a file with any score function",
		ArgsUsage: "IN [OUT]",
		Description: "Reads the output of generate, or any parquet or JSON objects with replies, and reports mean@n, best@k and pass@k.\n" +
			"With OUT (.jsonl, or .parquet if IN is), it adds the scores as a column and keeps finished rows in\n" +
			"OUT.progress, from which the same command resumes after an interruption. It does not resume if the reward model, or a\n" +
			"file that an exec: command names, has changed. Changes behind an http:// function cannot be detected.",
		Flags: slices.Concat(keys[:1], []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "configuration `FILE` with the section [reward] to use instead"},
		}, keys[1:], []cli.Flag{
			&cli.StringFlag{Name: "prompt-key", Value: run.PromptColumn, Usage: promptKeyUsage},
			&cli.StringFlag{Name: "response-key", Value: run.ResponseColumn, Usage: responseKeyUsage + ": text, or a list of texts"},
			&cli.StringFlag{Name: "ground-truth-key", Value: run.GroundTruthColumn, Usage: "column of the ground truth"},
			&cli.StringFlag{Name: "data-source-key", Value: run.DataSourceColumn, Usage: "column of the row's data source"},
			&cli.Float64Flag{Name: "threshold", Value: 1, Usage: "minimum score at which a reply passes"},
			&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists, and start over"},
			jsonFlag(),
		}),
	}, 1, 2, runScore)
}

// scoreKeys are the flags of score that override keys. They cannot be combined
// with --config.
func scoreKeys() []keyFlag {
	usual := schema.Defaults().Reward
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "score-fn", Usage: "score function: " + strings.Join(schema.ScoreFns(), ", ") + ", http://…, https://… or exec:COMMAND"}, keys: "reward.score_fn"},
		{flag: &cli.Float64Flag{Name: "format-score", Usage: "score of a well-formed wrong answer"}, keys: "reward.format_score"},
		{flag: &cli.IntFlag{Name: "min-answer-tags", Value: usual.MinAnswerTags, Usage: "minimum number of <answer> tags in a reply; -1: the default of the function"}, keys: "reward.min_answer_tags"},
		{flag: &cli.Float64Flag{Name: "timeout", Value: usual.ScoreTimeoutS, Usage: "timeout of one batch of an http://, https:// or exec: function in seconds"}, keys: "reward.score_timeout_s"},
		{flag: &cli.IntFlag{Name: "batch-size", Value: usual.ScoreBatchSize, Usage: "replies in one request to an http://, https:// or exec: function"}, keys: "reward.score_batch_size"},
		{flag: &cli.StringFlag{Name: "reward-model", Usage: "folder of the reward model for --score-fn model"}, keys: "reward.model_path"},
		{flag: deviceFlag(), keys: "model.device"},
	}
}

// scoreConfig returns the configuration of --config, or of the flags scoreKeys,
// with the score functions and the device and number format of a reward model.
// It also returns the flags that override keys of the configuration.
func (s *State) scoreConfig(c *cli.Context, f *flagFaults) (cfg configs.Config, flags []keyFlag, err error) {
	file := c.String("config")
	if file == "" {
		flags, cfg = scoreKeys(), schema.Defaults()
		cfg.Model.ComputeDtype = "float32"
		f.override(c, flags, &cfg, true)
		if f.need("score-fn", cfg.Reward.ScoreFn, "the name of a score function, or --config with a [reward] section") &&
			(cfg.Reward.ModelPath != "") != (cfg.Reward.ScoreFn == configs.ModelScoreFn) {
			f.add("reward-model", "--reward-model and --score-fn %s need each other: give both or neither", configs.ModelScoreFn)
		}
		f.values(flags, &cfg)
		return cfg, flags, f.err()
	}
	for _, k := range scoreKeys() {
		if c.IsSet(k.name()) {
			f.add(k.name(), "--config sets it: remove one of them")
		}
	}
	if err := f.err(); err != nil {
		return cfg, nil, err
	}
	if cfg, err = s.loadConfig(file, "", nil); err != nil {
		return cfg, nil, err
	}
	if cfg.Reward.ScoreFn == "" && len(cfg.Reward.Components) == 0 {
		return cfg, nil, errext.With(errext.Input, "set reward.score_fn or reward.components in the file, or give --score-fn", fmt.Errorf("%s names no score function", file))
	}
	if cfg.Reward.ModelPath == "" { // no model uses the device, which may be missing
		cfg.Model.Device = "cpu"
	}
	return cfg, nil, nil
}

func runScore(ctx context.Context, s *State, c *cli.Context) error {
	o := run.ScoreOptions{
		In: c.Args().Get(0), Out: c.Args().Get(1), PromptKey: c.String("prompt-key"), ResponseKey: c.String("response-key"),
		TruthKey: c.String("ground-truth-key"), SourceKey: c.String("data-source-key"), Threshold: c.Float64("threshold"), Force: c.Bool("force"),
	}
	f := flagFaults{}
	f.need("response-key", o.ResponseKey, "the name of a column")
	cfg, flags, err := s.scoreConfig(c, &f)
	if err != nil {
		return err
	}
	r, err := s.openRun(ctx, cfg, flags)
	if err != nil {
		return err
	}
	result, err := r.Score(ctx, o)
	if err != nil {
		return err
	}
	return s.printWrapped(result, result.String(), c.Bool("json"))
}
