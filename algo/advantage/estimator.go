package advantage

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Options configure an estimator.
type Options struct {
	Params registry.Values // of the estimator, by key
	// InvalidActionPenalty was taken off the reward of the last token of every
	// turn without a valid action, under an estimator with PenaltyByTurn.
	InvalidActionPenalty float64
}

// The parameters that several estimators have.
var (
	normByStd = registry.NewParam("norm_by_std", true, "divide a group's advantages by the standard deviation of its scores", registry.Any)
	gamma     = registry.NewParam("gamma", 1.0, "discount per token of the rewards that follow", registry.Between(0, 1))
)

// Needs are the fields of a row, besides Rewards, Mask and UID, that an
// estimator reads: whoever calls it computes them first.
type Needs struct {
	Values       bool // of a critic
	Baseline     bool // of a greedy episode of every task
	SumPiSquared bool // and OldLogProbs
	Turns        bool
	Parts        bool // of the reward
}

// Estimator is one way to estimate advantages.
type Estimator struct {
	// Estimate fills Advantages and Returns of every row. Both have one entry
	// a token and are 0 where the mask is 0.
	Estimate func(rows []data.Row, o Options) error
	Needs    Needs
	// Grouped says that rows are compared with the others of their uid and
	// with nothing else: a group of equal scores has no advantage anywhere, and
	// a group of one row nothing to be compared with.
	Grouped bool
	// InGroup says that rows are compared with those of their uid among other
	// things: a group of one row has nothing to be compared with, either.
	InGroup bool
	// Whole says that the estimate makes up for groups without an advantage as
	// they are in the loss's mean, where they therefore stay.
	Whole bool
	// PenaltyByTurn says that it wants the penalty of an invalid action on the
	// last token of its turn, and not off the episode's score.
	PenaltyByTurn bool
}

// Estimators holds the estimators by name.
var Estimators = registry.New[Estimator]("advantage estimator")

// Compute fills the rows' advantages and returns with the estimator called
// name. Rows that lack a field it needs are an error. An episode of several
// contexts counts once, and its advantage is on the sampled tokens of all of
// them: an Estimator sees whole episodes.
func Compute(name string, rows []data.Row, o Options) error {
	e, err := Estimators.Lookup(name)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := e.Needs.check(&rows[i]); err != nil {
			return fmt.Errorf("%s: row %d (%s) %w", name, i, rows[i].UID, err)
		}
	}
	if err := data.ByEpisode(rows, func(episodes []data.Row) error { return e.Estimate(episodes, o) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (n Needs) check(r *data.Row) error {
	tokens := len(r.Mask)
	for _, f := range []struct {
		needed bool
		name   string
		values []float32
	}{
		{true, "rewards", r.Rewards}, {n.Values, "values", r.Values},
		{n.SumPiSquared, "sums of squared probabilities", r.SumPiSquared}, {n.SumPiSquared, "old log-probs", r.OldLogProbs},
	} {
		if f.needed && len(f.values) != tokens {
			return fmt.Errorf("has %d %s for %d tokens", len(f.values), f.name, tokens)
		}
	}
	if n.Baseline && r.Baseline == nil {
		return fmt.Errorf("has no baseline: no greedy episode of its task was scored")
	}
	if n.Parts && len(r.Parts) == 0 {
		return fmt.Errorf("has no parts of its reward")
	}
	if n.Turns && len(r.Turns) == 0 && r.SampledTokens() > 0 {
		return fmt.Errorf("has no turns")
	}
	return nil
}

// broadcast returns v on every token whose mask is 1, 0 elsewhere.
func broadcast(v float64, mask []uint8) []float32 {
	out := make([]float32, len(mask))
	for i, m := range mask {
		if m == 1 {
			out[i] = float32(v)
		}
	}
	return out
}

// scores are the sums of the rows' token rewards; those of a group that differ
// by rounding alone are equal.
func scores(rows []data.Row) []float64 {
	out := make([]float64, len(rows))
	for i := range rows {
		out[i] = rows[i].RewardSum()
	}
	for _, members := range Groups(rows) {
		Settle(out, members, rows)
	}
	return out
}
