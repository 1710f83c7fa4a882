package advantage

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Options configure an estimator.
type Options struct {
	Params registry.Values // the estimator's parameters by key
	// InvalidActionPenalty is the amount already subtracted from the reward of the
	// last token of every turn without a valid action. Only estimators with
	// PenaltyByTurn read it.
	InvalidActionPenalty float64
}

// The parameters that several estimators share.
var (
	normByStd = registry.NewParam("norm_by_std", true, "divide a group's advantages by the standard deviation of its scores", registry.Any)
	gamma     = registry.NewParam("gamma", 1.0, "discount per token of the rewards that follow", registry.Between(0, 1))
)

// Needs lists the fields of a row, besides Rewards, Mask and UID, that an
// estimator reads. The caller of Compute fills them first.
type Needs struct {
	Values       bool // the critic's values
	Baseline     bool // the score of a greedy episode of the task
	SumPiSquared bool // the sums of squared probabilities and the old log-probs
	Turns        bool
	Parts        bool // the parts of the reward
}

// Estimator is one way to estimate advantages.
type Estimator struct {
	// Estimate fills Advantages and Returns of every row. Both have one entry
	// per token and are 0 where the mask is 0.
	Estimate func(rows []data.Row, o Options) error
	Needs    Needs
	// Grouped means that a row is compared only with the rows of its uid. All
	// advantages of a group with equal scores are then 0, and a group of one row has
	// no comparison.
	Grouped bool
	// InGroup means that the comparison with the rows of the same uid is one part
	// of the estimate. A group of one row has no comparison either.
	InGroup bool
	// KeepZeroSpread means that groups without an advantage stay in the loss's mean,
	// because the estimate compensates for them.
	KeepZeroSpread bool
	// PenaltyByTurn means that the penalty of an invalid action is subtracted at
	// the last token of its turn instead of from the episode's score.
	PenaltyByTurn bool
}

// Estimators holds the estimators by name.
var Estimators = registry.New[Estimator]("advantage estimator")

// Compute fills the rows' advantages and returns with the named
// estimator. It returns an error if a row lacks a field that the estimator needs.
// Rows of one episode are merged first, so that an episode of several contexts
// counts once and the sampled tokens of all its contexts get its advantage.
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
