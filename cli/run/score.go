package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
)

// ScoreOptions are the options of Score that are not configuration keys.
type ScoreOptions struct {
	In, Out     string  // parquet, or JSON objects; Out "": write no file
	PromptKey   string  // column of the prompts
	ResponseKey string  // column of the replies
	TruthKey    string  // column of the ground truths
	SourceKey   string  // column of the data sources
	Threshold   float64 // minimum score of a reply that passes
	Force       bool    // replace Out and its progress file
}

// scoreWork lists everything that the scores depend on.
type scoreWork struct {
	Command     string         `json:"command"`
	Input       string         `json:"input_sha256"`
	PromptKey   string         `json:"prompt_key"`
	ResponseKey string         `json:"response_key"`
	TruthKey    string         `json:"ground_truth_key"`
	SourceKey   string         `json:"data_source_key"`
	Reward      configs.Reward `json:"reward"`
	// Digests are the hashes of the files of the score functions, by path.
	Digests map[string]string `json:"judges_sha256"`
}

// scoringKeys returns a [reward] section without the keys that may change
// between two calls, such as the timeout.
func scoringKeys(r configs.Reward) configs.Reward {
	r.ScoreTimeoutS, r.ScoreBatchSize, r.ModelMicroBatchSize, r.ModelOffloadParams = 0, 0, 0, false
	return r
}

// rowScores is the record of a finished row: the scores of its replies, in total
// and by component.
type rowScores struct {
	Scores []float64                 `json:"scores"`
	Parts  map[string][]reward.Score `json:"parts"`
}

// scoreRows is the number of rows scored and recorded at once.
const scoreRows = 64

// Score scores the replies of a file with the score functions of [reward]. With an
// output it adds the scores as a column, and a progress file keeps finished rows.
// After an interruption the same call resumes from this file.
func (r *Run) Score(ctx context.Context, o ScoreOptions) (result ScoreResult, err error) {
	h, cfg := &r.host, r.cfg
	const column = "scores"
	in, err := readTable(ctx, h, o.In, o.Out, o.Force, column)
	if err != nil {
		return result, err
	}
	samples, err := mapRows(in, o.In, o.samples)
	if err != nil {
		return result, err
	}
	var open Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	composer, err := openComposer(h, cfg.Reward, func() (reward.Scorer, error) {
		thread, dt, err := openDevice(h, &open, cfg.Model)
		if err != nil {
			return nil, err
		}
		return openRewardModel(ctx, h, thread, dt, cfg.Reward, nil, nil)
	})
	if err != nil {
		return result, err
	}
	open.Add(composer.Close)
	done, err := r.openScores(o, samples)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, done.close(err == nil)) }()
	if err := r.scoreAll(ctx, o, composer, samples, done); err != nil {
		return result, err
	}
	rows, scores := make([]rowScores, len(samples)), make([][]float64, len(samples))
	for i := range rows {
		rows[i], scores[i] = done.rows[i], done.rows[i].Scores
	}
	if o.Out != "" {
		if err := table.Add(in, column, scores); err != nil {
			return result, err
		}
		if err := writeTable(h, in, o.Out, o.Force); err != nil {
			return result, err
		}
	}
	return summarize(rows, o.Threshold), nil
}

// samples are the replies of a row.
func (o ScoreOptions) samples(i int, row map[string]any) ([]reward.Sample, error) {
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
	prompt, _ := promptOf(row, o.PromptKey) // a file to be scored may lack prompts
	var contents []string
	for _, m := range prompt {
		contents = append(contents, m.Content)
	}
	lengths, _ := table.At(row, tokensKey(o.ResponseKey)).([]any)
	out := make([]reward.Sample, len(texts))
	for k, text := range texts {
		out[k] = reward.Sample{
			ID: fmt.Sprintf("row_%d_%d", i, k), Source: table.TextAt(row, o.SourceKey), Prompt: strings.Join(contents, "\n"), Response: text,
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

// explain adds a hint to the error of a row that no function can score. The hint
// names the column.
func (o ScoreOptions) explain(err error) error {
	switch {
	case errors.Is(err, reward.ErrNoGroundTruth):
		return errext.With(errext.Input, fmt.Sprintf("the row has no ground truth in column %s: choose another column with --ground-truth-key", o.TruthKey), err)
	case errors.Is(err, reward.ErrNoFunction):
		return errext.With(errext.Input, fmt.Sprintf("the data source was read from column %s: choose a function with --score-fn, or another column with --data-source-key", o.SourceKey), err)
	}
	return err
}

// openScores opens the progress file if there is an output.
func (r *Run) openScores(o ScoreOptions, samples [][]reward.Sample) (*rowFile[rowScores], error) {
	if o.Out == "" {
		return &rowFile[rowScores]{rows: map[int]rowScores{}}, nil
	}
	hash, err := r.host.HashFile(o.In)
	if err != nil {
		return nil, err
	}
	digests, err := rewardDigests(&r.host, r.cfg.Reward)
	if err != nil {
		return nil, err
	}
	work := scoreWork{"score", hash, o.PromptKey, o.ResponseKey, o.TruthKey, o.SourceKey, scoringKeys(r.cfg.Reward), digests}
	return openRowFile(&r.host, o.Out, work, o.Force, func(i int, row rowScores) bool {
		return i >= 0 && i < len(samples) && len(row.Scores) == len(samples[i])
	})
}

// scoreAll scores the rows that the progress file done lacks.
func (r *Run) scoreAll(ctx context.Context, o ScoreOptions, composer *reward.Composer, samples [][]reward.Sample, done *rowFile[rowScores]) error {
	bar := r.host.Progress("scoring", len(samples))
	defer bar.Done()
	bar.Set(len(done.rows), "")
	for chunk := range slices.Chunk(done.missing(len(samples)), scoreRows) {
		var flat []reward.Sample
		for _, i := range chunk {
			flat = append(flat, samples[i]...)
		}
		composed, err := composer.Score(ctx, flat)
		if err != nil {
			return o.explain(fmt.Errorf("%s: %w", o.In, err))
		}
		at := 0
		for _, i := range chunk {
			end := at + len(samples[i])
			row := rowScores{Scores: composed.Scores[at:end], Parts: map[string][]reward.Score{}}
			for name, scores := range composed.Parts {
				row.Parts[name] = scores[at:end]
			}
			finished, err := done.add(i, row)
			if err != nil {
				return err
			}
			bar.Set(finished, "")
			at = end
		}
	}
	return nil
}

// ScoreResult is the result of Score.
type ScoreResult struct {
	Rows    int                `json:"rows"`
	Samples int                `json:"samples"` // replies per row; if rows differ, the smallest number
	Replies int                `json:"replies"` // total number of replies
	Scores  map[string]float64 `json:"scores"`  // mean@n, best@k, pass@k
	Metrics map[string]float64 `json:"metrics"` // reward/NAME/mean of every component, and its extra numbers
}

// summarize averages over rows: mean@n of a row's n scores, and best@k and
// pass@k for k = 1, 2, 4 and so on up to n. If rows differ in their number of
// replies, n is the smallest number. Rows with more replies use all of them: best@k
// and pass@k are means over the choices of k replies.
func summarize(rows []rowScores, threshold float64) ScoreResult {
	r := ScoreResult{Rows: len(rows), Samples: len(rows[0].Scores), Scores: map[string]float64{}}
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

// String returns the scores, a line each.
func (r ScoreResult) String() string {
	var b strings.Builder
	if r.Replies == r.Rows*r.Samples {
		fmt.Fprintf(&b, "%d rows x %d replies\n", r.Rows, r.Samples)
	} else {
		fmt.Fprintf(&b, "%d replies in %d rows, at least %d per row\n", r.Replies, r.Rows, r.Samples)
	}
	for _, m := range []map[string]float64{r.Scores, r.Metrics} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "  %-24s %.4f\n", name, m[name])
		}
	}
	return b.String()
}
