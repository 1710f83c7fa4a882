package reward

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Sample is the input of a score function: one reply, or all replies of an
// episode.
type Sample struct {
	ID          string
	Source      string // data_source of the row, or the environment if the row has none
	Prompt      string
	Response    string         // the reply; for an episode, its replies joined by newlines
	GroundTruth string         // text, or JSON for several parts; see Targets
	EnvReward   float64        // the environment's rewards, reduced by the signal
	Tokens      int            // number of sampled tokens; -1 if unknown
	Turns       []data.Turn    // turns of an episode; nil for a single reply
	TurnRewards []float64      // the share of each turn in EnvReward; nil for a single reply
	Cumulative  bool           // the rewards of Turns are running scores
	Messages    []data.Message // the conversation, in order; nil if the prompt is unknown
}

// SampleOf returns the sample of an episode.
func SampleOf(e *data.Episode, signal Signal) Sample {
	s := Sample{
		ID: e.Task.ID, Source: cmp.Or(e.Task.Source, e.Task.Env), GroundTruth: e.Task.GroundTruth,
		EnvReward: signal.Of(e)(e.Turns), TurnRewards: shares(signal.Of(e), e.Turns), Tokens: e.SampledTokens(), Turns: e.Turns, Cumulative: e.Cumulative, Messages: e.Messages,
	}
	var prompt, replies []string
	for _, m := range e.Messages {
		if m.Role == "assistant" {
			break
		}
		prompt = append(prompt, m.Content)
	}
	for _, t := range e.Turns {
		replies = append(replies, t.Text)
	}
	s.Prompt, s.Response = strings.Join(prompt, "\n"), strings.Join(replies, "\n")
	return s
}

// replies returns the texts of the turns, or the single reply.
func (s *Sample) replies() []string {
	if s.Turns == nil {
		return []string{s.Response}
	}
	out := make([]string, len(s.Turns))
	for i, t := range s.Turns {
		out[i] = t.Text
	}
	return out
}

// Score is the score of a sample, with extra numbers for the metrics.
type Score struct {
	Value float64
	Extra map[string]float64
	// Turns holds the share of each turn in Value, for the allocation per_turn. nil: the
	// score is of the whole episode, and its share is in the last turn.
	Turns []float64 `json:",omitempty"`
}

// Scorer returns one Score for each sample, in their order. Only one goroutine may
// use it at a time. Close releases its resources.
type Scorer interface {
	Score(ctx context.Context, samples []Sample) ([]Score, error)
	Close() error
}

// Function is a score function of this program. The entry declares the
// function's parameters.
type Function struct {
	NeedsTruth bool // whether the function needs the ground truth of the data row
	// Score scores a sample under the parameters v.
	Score func(v registry.Values, s *Sample) (Score, error)
}

// apply scores a sample. It returns ErrNoGroundTruth if a needed ground truth is missing.
func (f Function) apply(v registry.Values, s *Sample) (Score, error) {
	if f.NeedsTruth && s.GroundTruth == "" {
		return Score{}, ErrNoGroundTruth
	}
	return f.Score(v, s)
}

// Functions holds the score functions by name.
var Functions = registry.New[Function]("score function")

// The parameters that several functions share.
var (
	formatScore   = registry.NewParam("format_score", 0.0, "score of a well-formed wrong answer", registry.Finite)
	minAnswerTags = registry.NewParam("min_answer_tags", -1, "<answer> tags that a reply needs; -1: the function's own number", registry.OrUnset)
	maxLength     = registry.NewParam("max_length", 0, "longest response without a penalty; 0: no limit", registry.AtLeast(0))
)

// Open returns a scorer for a registered function.
func Open(name string, v registry.Values) (Scorer, error) {
	f, err := Functions.Lookup(name)
	if err != nil {
		return nil, err
	}
	if e := Functions.Entry(name); e.Check != nil {
		if key, problem := e.Check(v); problem != "" {
			return nil, fmt.Errorf("score function %s: %s: %s", name, key, problem)
		}
	}
	return &local{name, f, v}, nil
}

type local struct {
	name     string
	function Function
	values   registry.Values
}

// Score scores the samples in sequence.
func (l *local) Score(ctx context.Context, samples []Sample) ([]Score, error) {
	out := make([]Score, len(samples))
	for i := range samples {
		s := &samples[i]
		err := ctx.Err()
		if err == nil {
			out[i], err = l.function.apply(l.values, s)
		}
		if err != nil {
			return nil, fmt.Errorf("score function %s: sample %s: %w", l.name, s.ID, err)
		}
	}
	return out, nil
}

// Close does nothing.
func (l *local) Close() error { return nil }
