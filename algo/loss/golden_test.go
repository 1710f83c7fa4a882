package loss

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestLossesOfVerlAndTRL checks that the losses, their gradients and their metrics equal the
// results of verl's and TRL's functions (testdata/make_goldens.py), with and without weights of a
// rollout correction.
func TestLossesOfVerlAndTRL(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Lens  []int
		Cases []struct {
			Name, Agg               string
			Options, Metrics        map[string]float64
			LogP, Old, Adv, Weights []float64
			Grad                    []float64
			Loss                    float64
		}
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	for i, c := range golden.Cases {
		t.Run(fmt.Sprintf("%d %s %s", i, c.Name, c.Agg), func(t *testing.T) {
			p, err := Policies.Lookup(c.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(c.Name, c.Agg); err != nil {
				t.Fatal(err)
			}
			o := Options{Params: registry.Values{}}
			for _, p := range Policies.Entry(c.Name).Params {
				o.Params[p.Key] = c.Options[p.Key] // 0 if the case does not set the parameter
			}
			n := len(c.LogP)
			torchtest.Run(t, func(s *torch.Scope) {
				logp := s.Float64s(c.LogP, n)
				logp.SetRequiresGrad(true)
				b := Batch{LogP: logp, Old: s.Float64s(c.Old, n), Adv: s.Float64s(c.Adv, n), Lens: golden.Lens}
				if c.Weights != nil {
					b.Weights = s.Float64s(c.Weights, n)
				}
				l, sums := p.Loss(s, b, o)
				total := l.Mul(weights(t, s, c.Agg, golden.Lens, 1)).Sum()
				torchtest.Values(t, total, 1e-8*math.Max(1, math.Abs(c.Loss)), c.Loss)
				total.Backward()
				torchtest.Values(t, logp.Grad(), 1e-7, c.Grad...)
				for name, got := range map[string]float64{
					"actor/pg_clipfrac": valueOf(sums.ClipFrac), "actor/pg_clipfrac_lower": valueOf(sums.ClipFracLower), "actor/ppo_kl": valueOf(sums.PPOKL),
				} {
					if want, ok := c.Metrics[name]; ok && math.Abs(got/float64(n)-want) > 1e-6 {
						t.Errorf("%s is %g, want %g", name, got/float64(n), want)
					}
				}
			})
		})
	}
}
