package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func scoreCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "score",
		Usage:     "score the replies of a file with any score function",
		ArgsUsage: "IN [OUT]",
		Flags:     scoreFlags(),
		Description: "Reads what generate writes, or any parquet or JSON objects with replies, and reports mean@n, best@k and pass@k.\n" +
			"With OUT (.jsonl, or .parquet if IN is), the scores are written beside the replies; finished rows are kept in\n" +
			"OUT.progress, from which the same command resumes after an interruption. It does not resume if the reward model, or a\n" +
			"file that an exec: command names, has changed. Changes behind an http:// function cannot be detected.",
	}, 2, runScore)
}

// scoreKeys are the flags of score that override keys. A configuration of
// --config takes their place.
func scoreKeys() []keyFlag {
	usual := schema.Defaults().Reward
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "score-fn", Usage: "score function: " + strings.Join(schema.ScoreFns(), ", ") + ", http://…, https://… or exec:COMMAND"}, keys: "reward.score_fn"},
		{flag: &cli.Float64Flag{Name: "format-score", Usage: "score of a well-formed wrong answer"}, keys: "reward.format_score"},
		{flag: &cli.IntFlag{Name: "min-answer-tags", Value: usual.MinAnswerTags, Usage: "<answer> tags that a reply needs; -1: the default of the function"}, keys: "reward.min_answer_tags"},
		{flag: &cli.Float64Flag{Name: "timeout", Value: usual.ScoreTimeoutS, Usage: "timeout of one batch of an http://, https:// or exec: function in seconds"}, keys: "reward.score_timeout_s"},
		{flag: &cli.IntFlag{Name: "batch-size", Value: usual.ScoreBatchSize, Usage: "replies in one request to such a function"}, keys: "reward.score_batch_size"},
		{flag: &cli.StringFlag{Name: "reward-model", Usage: "folder of the reward model of --score-fn model"}, keys: "reward.model_path"},
		{flag: deviceFlag(), keys: "model.device"},
	}
}

func scoreFlags() []cli.Flag {
	keys := flagsOf(scoreKeys())
	return slices.Concat(keys[:1], []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE` with the section [reward] to use instead"},
	}, keys[1:], []cli.Flag{
		&cli.StringFlag{Name: "prompt-key", Value: run.PromptColumn, Usage: promptKeyUsage},
		&cli.StringFlag{Name: "response-key", Value: run.ResponseColumn, Usage: responseKeyUsage + ": text, or a list of texts"},
		&cli.StringFlag{Name: "ground-truth-key", Value: run.GroundTruthColumn, Usage: "column of the ground truth"},
		&cli.StringFlag{Name: "data-source-key", Value: run.DataSourceColumn, Usage: "column of the row's data source"},
		&cli.Float64Flag{Name: "threshold", Value: 1, Usage: "score at which a reply passes"},
		&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists, and start over"},
		jsonFlag(),
	})
}

// parseScore reads the flags of scoreFlags, and the file of --config.
// The configuration holds the score functions, and the device and number format
// of a reward model. flags override its keys; a file of --config has none.
func (s *State) parseScore(c *cli.Context) (cfg configs.Config, o run.ScoreOptions, flags []keyFlag, err error) {
	o = run.ScoreOptions{
		In: c.Args().Get(0), Out: c.Args().Get(1), PromptKey: c.String("prompt-key"), ResponseKey: c.String("response-key"),
		TruthKey: c.String("ground-truth-key"), SourceKey: c.String("data-source-key"), Threshold: c.Float64("threshold"), Force: c.Bool("force"),
	}
	f := flagFaults{}
	if o.In == "" {
		f.errs = append(f.errs, errors.New("score needs a file to read: openmanus score IN [OUT]"))
	}
	f.need("response-key", o.ResponseKey, "the name of a column")
	file := c.String("config")
	if file != "" {
		for _, k := range scoreKeys() {
			if c.IsSet(k.name()) {
				f.add(k.name(), "--config sets it: leave out one of the two")
			}
		}
		if err := f.err(); err != nil {
			return cfg, o, nil, err
		}
		if cfg, err = s.loadConfig(file, "", nil); err != nil {
			return cfg, o, nil, err
		}
		if cfg.Reward.ScoreFn == "" && len(cfg.Reward.Components) == 0 {
			return cfg, o, nil, errext.With(errext.Input, "set reward.score_fn or reward.components there, or give --score-fn", fmt.Errorf("%s names no score function", file))
		}
		if !usesRewardModel(cfg.Reward) { // the device of training need not exist here
			cfg.Model.Device = "cpu"
		}
		return cfg, o, nil, nil
	}
	flags = scoreKeys()
	cfg = schema.Defaults()
	cfg.Model.ComputeDtype = "float32"
	f.override(c, flags, &cfg, true)
	if f.need("score-fn", cfg.Reward.ScoreFn, "the name of a score function, or --config with a [reward] section") &&
		(cfg.Reward.ModelPath != "") != (cfg.Reward.ScoreFn == configs.ModelScoreFn) {
		f.add("reward-model", "--reward-model and --score-fn %s need each other: give both or neither", configs.ModelScoreFn)
	}
	f.values(flags, &cfg)
	return cfg, o, flags, f.err()
}

// usesRewardModel reports whether a score function is the reward model.
func usesRewardModel(r configs.Reward) bool {
	return r.ScoreFn == configs.ModelScoreFn || slices.ContainsFunc(r.Components, func(c configs.Component) bool { return c.Fn == configs.ModelScoreFn })
}

func runScore(ctx context.Context, s *State, c *cli.Context) error {
	cfg, o, flags, err := s.parseScore(c)
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
	return s.printResult(result, result.String(), c.Bool("json"))
}
