package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Component is one scorer of a composition.
type Component struct {
	Name   string // in metrics and errors
	Weight float64
	Scorer Scorer
}

// Composer scores samples by Σ weight·component. It returns an error for scores
// that are not finite and for a component with the wrong number of scores.
type Composer struct {
	Components []Component

	scoring sync.Mutex // held by Score: a scorer scores one list at a time
}

// Lockstep reports whether a component computes with other processes, which must call Score at the same time.
func (c *Composer) Lockstep() bool {
	return slices.ContainsFunc(c.Components, func(part Component) bool { return lockstep(part.Scorer) })
}

// lockstep reports whether s has a method Lockstep that returns true. Such a scorer is called without samples too.
func lockstep(s Scorer) bool {
	l, ok := s.(interface{ Lockstep() bool })
	return ok && l.Lockstep()
}

// Composed holds the scores of a list of samples, in total and by component.
type Composed struct {
	Scores []float64
	Parts  map[string][]Score // by component
	Turns  [][]float64        // by sample, the share of each turn in Scores; nil for a single reply
}

// Score scores all samples. The components run in sequence. A concurrent call waits.
func (c *Composer) Score(ctx context.Context, samples []Sample) (Composed, error) {
	out := Composed{Scores: make([]float64, len(samples)), Parts: map[string][]Score{}, Turns: make([][]float64, len(samples))}
	for i := range samples {
		if n := len(samples[i].Turns); n > 0 {
			out.Turns[i] = make([]float64, n)
		}
	}
	c.scoring.Lock()
	defer c.scoring.Unlock()
	for _, part := range c.Components {
		if len(samples) == 0 && !lockstep(part.Scorer) {
			continue
		}
		scores, err := part.Scorer.Score(ctx, samples)
		if err != nil {
			return Composed{}, fmt.Errorf("reward component %s: %w", part.Name, err)
		}
		if len(scores) != len(samples) {
			return Composed{}, fmt.Errorf("reward component %s gave %d scores for %d samples", part.Name, len(scores), len(samples))
		}
		for i, s := range scores {
			if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
				return Composed{}, fmt.Errorf("reward component %s gave %v for sample %s", part.Name, s.Value, samples[i].ID)
			}
			out.Scores[i] += part.Weight * s.Value
			addShares(out.Turns[i], s, part.Weight)
		}
		out.Parts[part.Name] = scores
	}
	return out, nil
}

// addShares adds the shares of a score to the turns of its sample.
func addShares(turns []float64, s Score, weight float64) {
	switch {
	case len(turns) == 0:
	case len(s.Turns) == len(turns):
		for k, x := range s.Turns {
			turns[k] += weight * x
		}
	default:
		turns[len(turns)-1] += weight * s.Value
	}
}

// Metrics returns the mean of every component, reward/<name>/mean, and of every
// extra number of a component, each over the samples with a value.
func (c Composed) Metrics() map[string]float64 {
	m := map[string]float64{}
	count := map[string]float64{}
	add := func(name string, x float64) {
		m[name] += x
		count[name]++
	}
	for name, scores := range c.Parts {
		for _, s := range scores {
			add("reward/"+name+"/mean", s.Value)
			for extra, x := range s.Extra {
				add("reward/"+name+"/"+extra, x)
			}
		}
	}
	for name := range m {
		m[name] /= count[name]
	}
	return m
}

// Close closes the components.
func (c *Composer) Close() error {
	var err error
	for _, part := range c.Components {
		err = errors.Join(err, part.Scorer.Close())
	}
	return err
}
