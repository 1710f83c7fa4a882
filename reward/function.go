package reward

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Sample is what a score function judges: one reply, or all replies of an
// episode.
type Sample struct {
	ID          string
	Source      string // data_source of the row, or else the environment
	Prompt      string
	Response    string         // the reply; of an episode, its replies joined by line ends
	GroundTruth string         // text, or JSON where it has parts; see Targets
	EnvReward   float64        // what the signal made of the environment's rewards
	Tokens      int            // sampled tokens, -1 if nobody counted them
	Turns       []data.Turn    // of an episode, nil for a single reply
	Cumulative  bool           // the rewards of Turns are running scores
	Messages    []data.Message // what was said by both sides, in order; nil where the prompt is not known
}

// SampleOf is an episode as score functions see it.
func SampleOf(e *data.Episode, signal Signal) Sample {
	s := Sample{
		ID: e.Task.ID, Source: cmp.Or(e.Task.Source, e.Task.Env), GroundTruth: e.Task.GroundTruth,
		EnvReward: signal.Of(e)(e.Turns), Tokens: e.SampledTokens(), Turns: e.Turns, Cumulative: e.Cumulative, Messages: e.Messages,
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

// replies are the texts of the turns, or the one reply.
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

// Score is the verdict on a sample, with what else a function has to say
// about it: numbers that become metrics.
type Score struct {
	Value float64
	Extra map[string]float64
}

// Scorer scores samples: one Score for each, in their order. It may be used by
// one goroutine at a time. Close ends what it has started.
type Scorer interface {
	Score(ctx context.Context, samples []Sample) ([]Score, error)
	Close() error
}

// Function is a score function of this program. Its entry declares its
// parameters.
type Function struct {
	NeedsTruth bool // it compares with the ground truth of the data row
	// New returns the function for the values of its parameters.
	New func(v registry.Values) (func(s *Sample) (Score, error), error)
}

// Functions holds the score functions by name.
var Functions = registry.New[Function]("score function")

// The parameters that several functions have.
var (
	formatScore   = registry.NewParam("format_score", 0.0, "score of a well-formed wrong answer", registry.Finite)
	minAnswerTags = registry.NewParam("min_answer_tags", -1, "<answer> tags that a reply needs; -1: the function's own number", registry.OrUnset)
	maxLength     = registry.NewParam("max_length", 0, "longest response without a penalty; 0: no limit", registry.AtLeast(0))
)

// Open returns a scorer of a function of this program.
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
	score, err := f.New(v)
	if err != nil {
		return nil, fmt.Errorf("score function %s: %w", name, err)
	}
	return &local{name: name, needsTruth: f.NeedsTruth, score: score}, nil
}

type local struct {
	name       string
	needsTruth bool
	score      func(*Sample) (Score, error)
}

// Score scores one sample after the other.
func (l *local) Score(ctx context.Context, samples []Sample) ([]Score, error) {
	out := make([]Score, len(samples))
	for i := range samples {
		s := &samples[i]
		err := ctx.Err()
		if err == nil && l.needsTruth && s.GroundTruth == "" {
			err = ErrNoGroundTruth
		}
		if err == nil {
			out[i], err = l.score(s)
		}
		if err != nil {
			return nil, fmt.Errorf("score function %s: sample %s: %w", l.name, s.ID, err)
		}
	}
	return out, nil
}

// Close has nothing to end.
func (l *local) Close() error { return nil }
