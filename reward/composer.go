package reward

import (
	"context"
	"fmt"
	"math"
)

// Component is one scorer of a composition.
type Component struct {
	Name   string // in metrics and errors
	Weight float64
	Scorer Scorer
}

// Composer scores samples by Σ weight·component. It refuses what no optimiser
// can use: numbers that are not finite, and more or fewer scores than samples.
type Composer struct {
	Components []Component
}

// Composed are the scores of a list of samples, with every component's own.
type Composed struct {
	Scores []float64
	Parts  map[string][]Score // by component
}

// Score scores all samples. Components are asked one after the other.
func (c *Composer) Score(ctx context.Context, samples []Sample) (Composed, error) {
	out := Composed{Scores: make([]float64, len(samples)), Parts: map[string][]Score{}}
	if len(samples) == 0 {
		return out, nil
	}
	for _, part := range c.Components {
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
		}
		out.Parts[part.Name] = scores
	}
	return out, nil
}

// Metrics are the mean of every component, reward/<name>/mean, and of every
// extra number that the component gave, over the samples that have it.
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

// Close ends what the components have started.
func (c *Composer) Close() error {
	var first error
	for _, part := range c.Components {
		if err := part.Scorer.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
