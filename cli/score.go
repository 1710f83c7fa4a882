package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
)

func scoreCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "score",
		Usage:     "score the replies of a file with any score function",
		ArgsUsage: "IN [OUT]",
		Flags:     scoreFlags(),
		Description: "Reads what generate writes, or any parquet or JSON objects with replies, and reports mean@n, best@k and pass@k.\n" +
			"With OUT (.jsonl, or .parquet where IN is), the scores are written beside the replies; rows that are done are kept in\n" +
			"OUT.progress, so that the same command goes on after an interruption. It refuses to where the reward model, or a file\n" +
			"that an exec: command names, is another one by then; what an http:// function answers it cannot know.",
	}, 2, runScore)
}

// scoreOptions are the command line of `openmanus score`. The configuration
// holds the score functions, and the device and number format of a reward model.
type scoreOptions struct {
	configs.Config
	In, Out     string
	PromptKey   string
	ResponseKey string
	TruthKey    string
	SourceKey   string
	Threshold   float64
	Force, JSON bool
	timeoutName string // flag that sets the time-out of the functions; "": the configuration's key
}

// The columns that score reads unless others are named; the first and the last
// two are those of OpenManus-RL's files.
const (
	promptColumn      = "prompt"
	responseColumn    = "responses"
	groundTruthColumn = "reward_model.ground_truth"
	dataSourceColumn  = "data_source"
)

// scoreKeys are the flags of score that override keys. A configuration of
// --config takes their place.
func scoreKeys() []keyFlag {
	usual := schema.Defaults().Reward
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "score-fn", Usage: "score function: " + strings.Join(schema.ScoreFns(), ", ") + ", http://…, https://… or exec:COMMAND"}, keys: "reward.score_fn"},
		{flag: &cli.Float64Flag{Name: "format-score", Usage: "score of a well-formed wrong answer"}, keys: "reward.format_score"},
		{flag: &cli.IntFlag{Name: "min-answer-tags", Value: usual.MinAnswerTags, Usage: "<answer> tags that a reply needs; -1: the function's own number"}, keys: "reward.min_answer_tags"},
		{flag: &cli.Float64Flag{Name: "timeout", Value: usual.ScoreTimeoutS, Usage: "seconds that an http://, https:// or exec: function may take for one batch"}, keys: "reward.score_timeout_s"},
		{flag: &cli.IntFlag{Name: "batch-size", Value: usual.ScoreBatchSize, Usage: "replies in one request to such a function"}, keys: "reward.score_batch_size"},
		{flag: &cli.StringFlag{Name: "reward-model", Usage: "folder of the reward model that --score-fn model asks"}, keys: "reward.model_path"},
		{flag: deviceFlag(), keys: "model.device"},
	}
}

func scoreFlags() []cli.Flag {
	keys := flagsOf(scoreKeys())
	return slices.Concat(keys[:1], []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "run `FILE` whose section [reward], with its components, is taken instead"},
	}, keys[1:], []cli.Flag{
		&cli.StringFlag{Name: "prompt-key", Value: promptColumn, Usage: promptKeyUsage},
		&cli.StringFlag{Name: "response-key", Value: responseColumn, Usage: responseKeyUsage + ": text, or a list of texts"},
		&cli.StringFlag{Name: "ground-truth-key", Value: groundTruthColumn, Usage: "column of the ground truth"},
		&cli.StringFlag{Name: "data-source-key", Value: dataSourceColumn, Usage: "column of the row's data source"},
		&cli.Float64Flag{Name: "threshold", Value: 1, Usage: "a reply passes from this score on"},
		&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists, and begin anew"},
		jsonFlag(),
	})
}

// parseScore reads the flags of scoreFlags, and the file of --config.
func (s *State) parseScore(c *cli.Context) (scoreOptions, error) {
	o := scoreOptions{
		In: c.Args().Get(0), Out: c.Args().Get(1),
		PromptKey: c.String("prompt-key"), ResponseKey: c.String("response-key"), TruthKey: c.String("ground-truth-key"), SourceKey: c.String("data-source-key"),
		Threshold: c.Float64("threshold"), Force: c.Bool("force"), JSON: c.Bool("json"),
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
			return o, err
		}
		var err error
		if o.Config, err = s.loadConfig(file, "", nil); err != nil {
			return o, err
		}
		if o.Reward.ScoreFn == "" && len(o.Reward.Components) == 0 {
			return o, errext.With(errext.Input, "set reward.score_fn or reward.components there, or give --score-fn", fmt.Errorf("%s names no score function", file))
		}
		return o, nil
	}
	o.timeoutName = "--timeout"
	o.Config = schema.Defaults()
	o.Model.ComputeDtype = "float32"
	f.override(c, scoreKeys(), &o.Config, true)
	if f.need("score-fn", o.Reward.ScoreFn, "the name of a score function, or --config with a [reward] section") &&
		(o.Reward.ModelPath != "") != (o.Reward.ScoreFn == configs.ModelScoreFn) {
		f.add("reward-model", "it goes with --score-fn %s: give both or neither", configs.ModelScoreFn)
	}
	f.values(scoreKeys(), &o.Config)
	return o, f.err()
}

// scoreWork is what decides the scores.
type scoreWork struct {
	Command     string         `json:"command"`
	Input       string         `json:"input_sha256"`
	PromptKey   string         `json:"prompt_key"`
	ResponseKey string         `json:"response_key"`
	TruthKey    string         `json:"ground_truth_key"`
	SourceKey   string         `json:"data_source_key"`
	Reward      configs.Reward `json:"reward"`
	// Judges are the files that the score functions consist of.
	Judges map[string]string `json:"judges_sha256"`
}

// judging is a [reward] section without what a resumed run may change in it as
// well: who was told of a time-out goes on with a longer one.
func judging(r configs.Reward) configs.Reward {
	r.ScoreTimeoutS, r.ScoreBatchSize, r.ModelMicroBatchSize, r.ModelOffloadParams = 0, 0, 0, false
	return r
}

// rowScores are what is kept for a row: the scores of its replies, and what
// every component said.
type rowScores struct {
	Scores []float64                 `json:"scores"`
	Parts  map[string][]reward.Score `json:"parts"`
}

// scoreRows is how many rows are scored, and written down, at once.
const scoreRows = 64

func runScore(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := s.parseScore(c)
	if err != nil {
		return err
	}
	if o.Out != "" {
		if err := s.freeOutput(o.In, o.Out, o.Force); err != nil {
			return err
		}
	}
	in, err := s.readTable(ctx, o.In)
	if err != nil {
		return err
	}
	column := "scores"
	if o.Out != "" {
		if err := errors.Join(in.CheckOutput(o.Out), in.Lacks(column)); err != nil {
			return errext.With(errext.Input, "", err)
		}
	}
	samples := make([][]reward.Sample, in.Len())
	for i := range samples {
		row, err := in.Row(i)
		if err == nil {
			samples[i], err = o.samples(row, i)
		}
		if err != nil {
			return errext.With(errext.Input, "", fmt.Errorf("%s: row %d: %w", o.In, i, err))
		}
	}
	var open run.Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	composer, err := run.OpenComposer(&s.Host, o.timeoutName, o.Reward, func() (reward.Scorer, error) {
		name, err := run.ComputeDtype(o.Model.ComputeDtype, o.Model.Device)
		if err != nil {
			return nil, err
		}
		dt, err := run.ParseDtype(name)
		if err != nil {
			return nil, err
		}
		thread, err := run.OpenThread(&s.Host, o.Model.Device)
		if err != nil {
			return nil, err
		}
		open.AddFunc(thread.Close)
		return run.OpenRewardModel(ctx, &s.Host, thread, dt, o.Reward, nil)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, composer.Close()) }()
	rows, done, err := s.scoreAll(ctx, o, composer, samples)
	if err != nil {
		return err
	}
	if o.Out != "" {
		scores := make([][]float64, len(rows))
		for i, r := range rows {
			scores[i] = r.Scores
		}
		if err := table.Add(in, column, scores); err != nil {
			return err
		}
		if err := s.writeTable(in, o.Out, o.Force); err != nil {
			return err
		}
		if err := done.finish(); err != nil {
			return err
		}
	}
	result := summarize(rows, o.Threshold)
	if o.JSON {
		return s.printJSON(result)
	}
	return s.print([]byte(result.text()))
}

// samples are the replies of a row.
func (o scoreOptions) samples(row map[string]any, i int) ([]reward.Sample, error) {
	var texts []string
	switch v := table.At(row, o.ResponseKey).(type) {
	case string:
		texts = []string{v}
	case []any:
		for _, x := range v {
			text, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("its %s holds a %T, not text", o.ResponseKey, x)
			}
			texts = append(texts, text)
		}
	default:
		return nil, fmt.Errorf("it has no replies in %s: name the column with --response-key", o.ResponseKey)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("its %s is empty", o.ResponseKey)
	}
	id := "row_" + strconv.Itoa(i)
	var prompt []data.Message
	if messages, err := promptOf(row, o.PromptKey); err == nil { // a file to be scored need not have one
		prompt = messages
	}
	lengths, _ := table.At(row, tokensKey(o.ResponseKey)).([]any)
	out := make([]reward.Sample, len(texts))
	for k, text := range texts {
		out[k] = reward.Sample{
			ID: fmt.Sprintf("%s_%d", id, k), Source: table.TextAt(row, o.SourceKey), Prompt: promptText(row, o.PromptKey), Response: text,
			GroundTruth: table.TextAt(row, o.TruthKey), Tokens: -1,
		}
		if len(prompt) > 0 {
			out[k].Messages = append(slices.Clip(prompt), data.Message{Role: "assistant", Content: text})
		}
		if k < len(lengths) {
			if n, err := strconv.Atoi(fmt.Sprint(lengths[k])); err == nil {
				out[k].Tokens = n
			}
		}
	}
	return out, nil
}

// explain adds the column to the failure of a row that a function cannot judge.
func (o scoreOptions) explain(err error) error {
	switch {
	case errors.Is(err, reward.ErrNoGroundTruth):
		return errext.With(errext.Input, fmt.Sprintf("there is none in the column %s; --ground-truth-key names another", o.TruthKey), err)
	case errors.Is(err, reward.ErrNoFunction):
		return errext.With(errext.Input, fmt.Sprintf("so the column %s says; name a function with --score-fn, or another column with --data-source-key", o.SourceKey), err)
	}
	return err
}

// scoreAll scores the rows that the progress file, where there is an output,
// does not have yet.
func (s *State) scoreAll(ctx context.Context, o scoreOptions, composer *reward.Composer, samples [][]reward.Sample) (rows []rowScores, done *rowFile, failed error) {
	rows = make([]rowScores, len(samples))
	if o.Out != "" {
		hash, err := s.HashFile(o.In)
		if err != nil {
			return nil, nil, err
		}
		judges, err := run.RewardDigests(&s.Host, o.Reward)
		if err != nil {
			return nil, nil, err
		}
		work := scoreWork{"score", hash, o.PromptKey, o.ResponseKey, o.TruthKey, o.SourceKey, judging(o.Reward), judges}
		file, err := s.openRowFile(o.Out, work, o.Force)
		if err != nil {
			return nil, nil, err
		}
		done = file
		defer func() { failed = errors.Join(failed, file.close()) }()
		for i, raw := range done.done {
			if i < 0 || i >= len(rows) || json.Unmarshal(raw, &rows[i]) != nil || len(rows[i].Scores) != len(samples[i]) {
				return nil, nil, errext.With(errext.Input, "--force begins anew", fmt.Errorf("%s: row %d is not what was written", done.path, i))
			}
		}
	}
	var todo []int
	for i := range rows {
		if rows[i].Scores == nil {
			todo = append(todo, i)
		}
	}
	bar := s.Progress("scoring", len(rows))
	defer bar.Done()
	for chunk := range slices.Chunk(todo, scoreRows) {
		bar.Set(len(rows)-len(todo)+slices.Index(todo, chunk[0]), "")
		var flat []reward.Sample
		for _, i := range chunk {
			flat = append(flat, samples[i]...)
		}
		composed, err := composer.Score(ctx, flat)
		if err != nil {
			return nil, nil, o.explain(fmt.Errorf("%s: %w", o.In, err))
		}
		at := 0
		for _, i := range chunk {
			n := len(samples[i])
			rows[i] = rowScores{Scores: composed.Scores[at : at+n], Parts: map[string][]reward.Score{}}
			for name, scores := range composed.Parts {
				rows[i].Parts[name] = scores[at : at+n]
			}
			at += n
			if done != nil {
				if err := done.add(i, rows[i]); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	bar.Set(len(rows), "")
	return rows, done, nil
}

// scoreResult is what `openmanus score --json` prints.
type scoreResult struct {
	Rows    int                `json:"rows"`
	Samples int                `json:"samples"` // of a row; where rows differ, the fewest
	Replies int                `json:"replies"` // of all rows
	Scores  map[string]float64 `json:"scores"`  // mean@n, best@k, pass@k
	Metrics map[string]float64 `json:"metrics"` // reward/NAME/mean of every component, and its extra numbers
}

// summarize averages over rows: mean@n of a row's n scores, and best@k and
// pass@k for k = 1, 2, 4 and so on up to n. Where rows differ, n is the fewest,
// so that every number is of all rows; a row with more has all its replies
// counted, as choices of k or n of them.
func summarize(rows []rowScores, threshold float64) scoreResult {
	r := scoreResult{Rows: len(rows), Samples: len(rows[0].Scores), Scores: map[string]float64{}}
	all := reward.Composed{Parts: map[string][]reward.Score{}}
	for _, row := range rows {
		r.Samples = min(r.Samples, len(row.Scores))
		r.Replies += len(row.Scores)
		for name, scores := range row.Parts {
			all.Parts[name] = append(all.Parts[name], scores...)
		}
	}
	r.Metrics = all.Metrics()
	n := float64(len(rows))
	mean := fmt.Sprintf("mean@%d", r.Samples)
	for _, row := range rows {
		sum, passed := 0.0, 0
		for _, x := range row.Scores {
			sum += x
			if x >= threshold {
				passed++
			}
		}
		r.Scores[mean] += sum / float64(len(row.Scores)) / n
		for _, k := range eval.PassKs(r.Samples) {
			r.Scores[fmt.Sprintf("best@%d", k)] += bestAtK(row.Scores, k) / n
			r.Scores[fmt.Sprintf("pass@%d", k)] += eval.PassAtK(len(row.Scores), passed, k) / n
		}
	}
	return r
}

func (r scoreResult) text() string {
	var b strings.Builder
	if r.Replies == r.Rows*r.Samples {
		fmt.Fprintf(&b, "%d rows x %d replies\n", r.Rows, r.Samples)
	} else {
		fmt.Fprintf(&b, "%d replies to %d rows, at least %d to each\n", r.Replies, r.Rows, r.Samples)
	}
	for _, m := range []map[string]float64{r.Scores, r.Metrics} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "  %-24s %.4f\n", name, m[name])
		}
	}
	return b.String()
}
