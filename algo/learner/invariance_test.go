package learner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// way is one way to compute an update: how rows are cut into passes, whether activations are recomputed, and the
// order of the rows. All ways must give the same result.
type way struct {
	name          string
	micro         MicroBatching
	checkpointing bool
	order         []int // nil: unchanged
}

// ways lists all combinations of splits, gradient checkpointing and row orders. Tests compare each with the first.
var ways = func() []way {
	orders := map[string][]int{"": nil, ", backwards": {7, 6, 5, 4, 3, 2, 1, 0}, ", shuffled": {3, 0, 6, 1, 7, 4, 2, 5}}
	var list []way
	for _, s := range splits {
		for _, checkpointing := range []bool{false, true} {
			for _, name := range []string{"", ", backwards", ", shuffled"} {
				list = append(list, way{fmt.Sprintf("%s, checkpointing %v%s", s.name, checkpointing, name), s.micro, checkpointing, orders[name]})
			}
		}
	}
	return list
}()

func (w way) rows() []data.Row {
	rows := trainRows(8)
	if w.order == nil {
		return rows
	}
	moved := make([]data.Row, len(rows))
	for i, from := range w.order {
		moved[i] = rows[from]
	}
	return moved
}

// kinds lists the kinds of actors to test.
var kinds = []struct {
	name string
	lora *model.LoRA
}{
	{"all weights", nil},
	{"adapters", &model.LoRA{Rank: 3, Alpha: 6, Targets: []string{model.AllLinear}}},
}

// actorOf makes an actor that computes and trains in dt, with the same weights at every call.
func actorOf(t testing.TB, dt torch.DType, lora *model.LoRA) *Actor {
	t.Helper()
	return actorOn(t, dt, lora, shard.Options{})
}

// actorOn makes an actor like actorOf's with a sharded model.
func actorOn(t testing.TB, dt torch.DType, lora *model.LoRA, o shard.Options) *Actor {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	m, err := model.New(context.Background(), th, tinyConfig(), 11, dt)
	if err != nil {
		t.Fatal(err)
	}
	if lora != nil {
		err = m.AddLoRA(context.Background(), *lora, 4)
	}
	if err == nil && lora != nil { // as long as the matrices B are zero, the gradients of A are zero too
		err = torch.Run(context.Background(), th, func(s *torch.Scope) error {
			for i, p := range m.Adapters() {
				if i%2 == 1 {
					p.Tensor.Copy_(s.RandN(uint64(i), p.Tensor.Shape()...).MulScalar(.1))
				}
			}
			return nil
		})
	}
	if o.Level != shard.None && err == nil {
		err = m.Shard(context.Background(), o)
	}
	var a *Actor
	if err == nil {
		a, err = NewActor(context.Background(), m, dt, optim.DefaultAdamW())
	}
	if err != nil {
		m.Close()
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// trained returns the gradients of an actor's trainable parameters.
func trained(t testing.TB, a *Actor) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(torch.Run(context.Background(), a.master.Thread(), func(*torch.Scope) error {
		for _, p := range a.master.Trained() {
			if g := p.Tensor.Grad(); !g.None() {
				out[p.Name] = g.ToFloat32s()
			}
		}
		return nil
	}))
	if len(out) != len(a.master.Trained()) {
		t.Fatalf("%d of %d parameters have a gradient, want all", len(out), len(a.master.Trained()))
	}
	return out
}

// TestFirstGradientIsInvariant checks that the first gradient, with every term of the loss, is the
// same for all ways to compute it.
func TestFirstGradientIsInvariant(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			a := actorOf(t, torch.Float32, kind.lora)
			for _, loss := range []string{"policy", "supervised"} {
				var want map[string][]float32
				worst := 0.0
				for _, w := range ways {
					a.SetGradientCheckpointing(w.checkpointing)
					var st PolicyStats
					var err error
					if loss == "policy" {
						err = a.accumulatePolicy(t.Context(), w.rows(), false, policyOptions(w.micro), &st)
					} else {
						gradientSFT(t, a, w.rows(), w.micro)
					}
					must(t, err)
					got := trained(t, a)
					must(t, torch.Run(t.Context(), a.master.Thread(), func(*torch.Scope) error {
						a.master.DropGrads()
						return nil
					}))
					if want == nil {
						want = got
						continue
					}
					d, name := relative(t, got, want)
					if worst = math.Max(worst, d); !(d <= 1e-5) {
						t.Errorf("%s loss, %s: the relative error of the gradient of %s is %.2g", loss, w.name, name, d)
					}
				}
				t.Logf("%s loss: largest relative error of a gradient: %.2g", loss, worst)
			}
		})
	}
}

// TestCurvesAreInvariant checks that thirty steps, with -short ten, give the same curve for all ways to compute them, within
// rounding in float64 and in float32.
func TestCurvesAreInvariant(t *testing.T) {
	steps := 30
	if testing.Short() {
		steps = 10
	}
	some := []way{ways[0], ways[6+3], ways[12+2], ways[24+5]}
	for _, c := range []struct {
		dt  torch.DType
		tol float64
	}{{torch.Float64, 1e-8}, {torch.Float32, 1e-3}} {
		for _, kind := range kinds {
			if kind.lora != nil && c.dt == torch.Float32 {
				continue // the other cases cover adapters in float64 and full weights in float32
			}
			t.Run(fmt.Sprintf("%s in %v", kind.name, c.dt), func(t *testing.T) {
				var want [][2]float64
				worst := 0.0
				for _, w := range some {
					curve := curveOf(t, actorOf(t, c.dt, kind.lora), w, steps)
					if want == nil {
						want = curve
						if first, last := curve[0][0], curve[steps-1][0]; !(math.Abs(first-last) > 1e-2) {
							t.Fatalf("the loss goes from %v to %v: too small a change to compare curves", first, last)
						}
						continue
					}
					for k := range curve {
						for i, what := range []string{"loss", "gradient norm"} {
							d := math.Abs(curve[k][i]-want[k][i]) / math.Max(1, math.Abs(want[k][i]))
							worst = math.Max(worst, d)
							if !(d <= c.tol) {
								t.Errorf("%s: %s of step %d is %v, want %v", w.name, what, k+1, curve[k][i], want[k][i])
								break
							}
						}
					}
				}
				t.Logf("largest relative error of a curve: %.2g", worst)
			})
		}
	}
}

// curveOf trains on the same rows for some steps and returns the loss and the
// gradient norm of each step.
func curveOf(t *testing.T, a *Actor, w way, steps int) [][2]float64 {
	t.Helper()
	a.SetGradientCheckpointing(w.checkpointing)
	rows, o := w.rows(), policyOptions(w.micro)
	var curve [][2]float64
	for range steps {
		var st PolicyStats
		tokens, err := a.updateMiniBatch(t.Context(), rows, 2e-3, false, o, &st)
		must(t, err)
		curve = append(curve, [2]float64{st.Loss - o.EntropyCoef*st.Entropy/float64(tokens) + o.KLCoef*st.KL, st.GradNorm})
	}
	return curve
}

// TestRowOrders checks that the row orders of ways are permutations of the rows.
func TestRowOrders(t *testing.T) {
	for _, w := range ways {
		if sorted := slices.Sorted(slices.Values(w.order)); w.order != nil && !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("%s: the order %v is not a permutation of the 8 rows", w.name, w.order)
		}
	}
}
