package data

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Row is the algorithms' view of an episode, or of one context if an episode has
// several. A per-token slice is nil until it is computed, and otherwise as long as
// Tokens. Its values are 0 where Mask is 0.
type Row struct {
	UID           string // group key, shared by the samples of one task in one step
	TaskID        string
	Env           string
	Index         int // the task's index in its environment
	Sample        int // 0..group_size-1
	Seed          uint64
	WeightVersion int64 // of the episode; Turn.Behind has the older version of a turn
	Context       int   // number of the context in its episode, from 0
	Contexts      int   // number of contexts of the episode; 0: one

	Tokens          []int32
	Mask            []uint8   // 1 exactly on sampled tokens
	RolloutLogProbs []float32 // natural log, recorded when the token was sampled
	OldLogProbs     []float32 // of the policy before this batch's updates
	RefLogProbs     []float32 // of the frozen reference
	Entropies       []float32 // of the distribution of each token, in nats
	Values          []float32
	SumPiSquared    []float32 // Σ_v π(v)² of the distribution of each token
	Weights         []float32 // weight of each token in the loss; nil: all are 1
	Rewards         []float32 // the score, allocated to tokens
	Advantages      []float32
	Returns         []float32

	Score     float64      // score of the whole episode: the environment's reward until a score function replaces it
	EnvReward float64      // the environment's reward, reduced by the reward signal
	Parts     []RewardPart // the parts of the score, for estimators that need them
	Baseline  *float64     // score of a greedy episode of the same task; nil if none was played
	Outcome   Outcome
	Turns     []Turn
	// FirstObservation is the environment's first observation, "" if not recorded.
	FirstObservation string
}

// RewardPart is a part of an episode's reward. The reward is the sum of Weight times
// Value over its parts.
type RewardPart struct {
	Weight float64 `json:"weight"`
	Value  float64 `json:"value"`
}

// SampledTokens returns the number of tokens that the model sampled.
func (r *Row) SampledTokens() int { return bytes.Count(r.Mask, []byte{1}) }

// RewardSum returns the sum of the token rewards.
func (r *Row) RewardSum() float64 {
	s := 0.0
	for _, x := range r.Rewards {
		s += float64(x)
	}
	return s
}

type floatField struct {
	name   string
	values *[]float32
}

// floats lists the per-token float slices.
func (r *Row) floats() []floatField {
	return []floatField{
		{"RolloutLogProbs", &r.RolloutLogProbs}, {"OldLogProbs", &r.OldLogProbs}, {"RefLogProbs", &r.RefLogProbs},
		{"Entropies", &r.Entropies}, {"Values", &r.Values}, {"SumPiSquared", &r.SumPiSquared}, {"Weights", &r.Weights},
		{"Rewards", &r.Rewards}, {"Advantages", &r.Advantages}, {"Returns", &r.Returns},
	}
}

// Validate reports every inconsistency of the row.
func (r *Row) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	n := len(r.Tokens)
	if n == 0 {
		fault("it has no tokens")
	}
	if i := slices.IndexFunc(r.Tokens, func(id int32) bool { return id < 0 }); i >= 0 {
		fault("token %d has id %d", i, r.Tokens[i])
	}
	if len(r.Mask) != n {
		fault("Mask has %d entries for %d tokens", len(r.Mask), n)
	}
	if i := slices.IndexFunc(r.Mask, func(m uint8) bool { return m > 1 }); i >= 0 {
		fault("Mask[%d] is %d, not 0 or 1", i, r.Mask[i])
	}
	for _, f := range r.floats() {
		name, v := f.name, *f.values
		if v == nil {
			continue
		}
		if len(v) != n {
			fault("%s has %d entries for %d tokens", name, len(v), n)
			continue
		}
		if i := slices.IndexFunc(v, func(x float32) bool { return !finite(float64(x)) }); i >= 0 {
			fault("%s[%d] is %v", name, i, v[i])
		}
	}
	if r.Contexts < 0 || r.Context < 0 || r.Context >= max(r.Contexts, 1) {
		fault("Context is %d of %d", r.Context, r.Contexts)
	}
	if !finite(r.Score) {
		fault("Score is %v", r.Score)
	}
	if !finite(r.EnvReward) {
		fault("EnvReward is %v", r.EnvReward)
	}
	for i, p := range r.Parts {
		if !finite(p.Weight * p.Value) {
			fault("Parts[%d] is %v times %v", i, p.Weight, p.Value)
		}
	}
	if b := r.Baseline; b != nil && !finite(*b) {
		fault("Baseline is %v", *b)
	}
	if len(errs) == 0 { // checkTurns needs a mask of the right length
		if err := checkTurns(r.Turns, r.Mask); err != nil {
			errs = append(errs, err)
		}
	}
	for i := range r.Turns {
		if len(errs) > 0 {
			break
		}
		if err := checkKept(&r.Turns[i], r.Tokens); err != nil {
			errs = append(errs, fmt.Errorf("turn %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkTurns verifies that the spans of the turns are in order and cover exactly
// the masked tokens. A row without turns (a recorded trajectory) may have any mask.
func checkTurns(turns []Turn, mask []uint8) error {
	end, sampled := 0, 0
	for i, t := range turns {
		if t.Start < end || t.End < t.Start || t.End > len(mask) {
			return fmt.Errorf("turn %d spans tokens [%d, %d), want a span within [%d, %d)", i, t.Start, t.End, end, len(mask))
		}
		if j := bytes.IndexByte(mask[t.Start:t.End], 0); j >= 0 {
			return fmt.Errorf("turn %d: token %d was sampled but Mask is 0 there", i, t.Start+j)
		}
		end = t.End
		sampled += t.End - t.Start
	}
	if len(turns) == 0 {
		return nil
	}
	if masked := bytes.Count(mask, []byte{1}); masked != sampled {
		return fmt.Errorf("the mask is 1 on %d tokens, the turns sampled %d", masked, sampled)
	}
	return nil
}

// Rows returns the rows of finished episodes, one per context, in order. The
// contexts of an episode stay next to each other. It is an error if an episode is
// inconsistent or its outcome is not Trainable.
func Rows(episodes []*Episode) ([]Row, error) {
	out := make([]Row, 0, len(episodes))
	for i, e := range episodes {
		if e == nil {
			return nil, fmt.Errorf("rows: episode %d is nil", i)
		}
		rows, err := e.rows()
		if err != nil {
			return nil, fmt.Errorf("rows: episode %d (%s, uid %q, sample %d): %w", i, e.Task.ID, e.UID, e.Sample, err)
		}
		out = append(out, rows...)
	}
	return out, nil
}

func (e *Episode) rows() ([]Row, error) {
	switch {
	case !e.Outcome.Trainable():
		return nil, fmt.Errorf("outcome %q cannot be trained on", e.Outcome)
	case e.UID == "":
		return nil, errors.New("it has no uid")
	case len(e.LogProbs) != len(e.Tokens): // nil is not allowed either
		return nil, fmt.Errorf("LogProbs has %d entries for %d tokens", len(e.LogProbs), len(e.Tokens))
	}
	r := Row{
		UID: e.UID, TaskID: e.Task.ID, Env: e.Task.Env, Index: e.Task.Index, Sample: e.Sample, Seed: e.Seed,
		WeightVersion: e.WeightVersion, Tokens: e.Tokens, Mask: e.Mask, RolloutLogProbs: e.LogProbs,
		Score: e.Reward, EnvReward: e.Reward, Outcome: e.Outcome, Turns: e.Turns, FirstObservation: e.FirstObservation,
	}
	if err := errors.Join(r.Validate(), e.CheckContexts()); err != nil {
		return nil, err
	}
	return r.split(e.ContextSpans())
}
