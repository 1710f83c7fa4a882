package learner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// onRanks calls f for every rank of a group of n at the same time. A rank whose f ends its goroutine aborts the group. For one
// rank the group is nil.
func onRanks(t *testing.T, n int, f func(rank int, g *dist.Group)) {
	t.Helper()
	if n == 1 {
		f(0, nil)
		return
	}
	disttest.Run(t, n, func(_ *torch.Thread, g *dist.Group) error {
		f(g.Rank(), g)
		return nil
	})
}

// training is the result of a short run on one rank.
type training struct {
	numbers []float64 // losses, gradient norms and other statistics
	rows    []data.Row
	weights map[string][]float64
}

// weightsOf returns the trained weights of an actor, and of a critic's head unless it is nil.
func weightsOf(t testing.TB, a *Actor, h *valueHead) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.GatherWeights(t.Context()))
	defer func() { must(a.ReleaseWeights(t.Context())) }()
	err := torch.Run(t.Context(), a.master.Thread(), func(*torch.Scope) error {
		for _, p := range a.master.Trained() {
			out[p.Name] = p.Tensor.Detach().ToFloat64s()
		}
		if h != nil {
			for _, p := range h.params() {
				out[p.Name] = p.Tensor.Detach().ToFloat64s()
			}
		}
		return nil
	})
	must(err)
	return out
}

// world is how a run computes: the type, the ranks, and the level of sharding.
type world struct {
	dt    torch.DType
	micro MicroBatching
	level shard.Level
}

func (w world) options() shard.Options {
	return shard.Options{Group: w.micro.Group, Level: w.level, Compute: w.dt}
}

func (w world) actor(t *testing.T, lora *model.LoRA) *Actor {
	t.Helper()
	a := actorOn(t, w.dt, lora, w.options())
	a.SetGradientCheckpointing(w.level == shard.Gradients && w.micro.ranks() == 4) // sums the gradients of each layer
	return a
}

// critic makes a critic with a decoder of its own whose head is not tied, so that it has weights without gradients.
func (w world) critic(t *testing.T) *Critic {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
	must(t, err)
	t.Cleanup(th.Close)
	config := tinyConfig()
	config.TieWordEmbeddings = false
	m, err := model.New(t.Context(), th, config, 12, w.dt)
	must(t, err)
	must(t, m.Shard(t.Context(), w.options()))
	c, err := NewCritic(t.Context(), m, w.dt, optim.DefaultAdamW(), 14)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// parallelRuns lists runs of at least 10 optimiser steps that must not depend on the number of ranks.
var parallelRuns = []struct {
	name string
	run  func(t *testing.T, w world) training
}{
	{"grpo", func(t *testing.T, w world) training {
		o := policyOptions(w.micro)
		o.MiniBatch, o.Passes = 3, Passes{Epochs: 3, Shuffle: true}
		return updates(t, w.actor(t, nil), o)
	}},
	{"grpo on policy, one row in a mini-batch", func(t *testing.T, w world) training {
		a := w.actor(t, nil)
		o := policyOptions(w.micro)
		var sum training
		for i := range 10 { // most ranks have no row
			sum.rows = trainRows(10)[i : i+1]
			st, err := a.UpdateActor(t.Context(), sum.rows, 1e-3, o)
			must(t, err)
			sum.numbers = append(sum.numbers, st.Loss, st.GradNorm, st.Entropy, st.KL, st.Gap.Mean)
		}
		sum.weights = weightsOf(t, a, nil)
		return sum
	}},
	{"clip_cov", func(t *testing.T, w world) training {
		o := policyOptions(w.micro)
		o.Loss, o.Agg, o.MiniBatch, o.Passes = "clip_cov", loss.SeqMeanTokenMean, 2, Passes{Epochs: 3}
		return updates(t, w.actor(t, nil), o)
	}},
	{"adapters with dropout", func(t *testing.T, w world) training {
		a := w.actor(t, dropping)
		a.SetDropoutSeed(3)
		o := policyOptions(w.micro)
		o.MiniBatch, o.Passes = 2, Passes{Epochs: 5}
		return updates(t, a, o)
	}},
	{"ppo", func(t *testing.T, w world) training {
		a := w.actor(t, nil)
		c := w.critic(t)
		rows := trainRows(8)
		must(t, c.Values(t.Context(), rows, w.micro))
		must(t, SumPiSquared(t.Context(), a.Compute(), rows, w.micro, .9))
		for i := range rows {
			rows[i].Returns = rows[i].Advantages
		}
		co := criticOptions()
		co.Micro, co.Passes = w.micro, Passes{Epochs: 3}
		cst, err := c.UpdateCritic(t.Context(), rows, 1e-2, *co)
		must(t, err)
		o := policyOptions(w.micro)
		o.MiniBatch, o.Passes = 3, Passes{Epochs: 3}
		st, err := a.UpdateActor(t.Context(), rows, 1e-3, o)
		must(t, err)
		all := weightsOf(t, c.Actor, c.head)
		for name, v := range weightsOf(t, a, nil) {
			all["actor."+name] = v
		}
		return training{numbersOf(st, cst), rows, all}
	}},
	{"ppo, shared decoder", func(t *testing.T, w world) training {
		a := w.actor(t, nil)
		c := onActor(t, a)
		rows := trainRows(8)
		must(t, c.ValuesAndLogProbs(t.Context(), rows, w.micro, .9))
		for i := range rows {
			rows[i].Returns = rows[i].Advantages
		}
		co := criticOptions()
		co.Micro = w.micro
		cst, err := c.UpdateCritic(t.Context(), rows, 1e-2, *co)
		must(t, err)
		o := policyOptions(w.micro)
		o.MiniBatch, o.Passes, o.Value = 3, Passes{Epochs: 4, Shuffle: true}, valueTerm(c, .5)
		st, err := a.UpdateActor(t.Context(), rows, 1e-3, o)
		must(t, err)
		return training{numbersOf(st, cst), rows, weightsOf(t, a, c.head)}
	}},
	{"supervised", func(t *testing.T, w world) training {
		a := w.actor(t, nil)
		out := training{rows: trainRows(6)}
		for range 10 {
			st, err := a.UpdateSFT(t.Context(), out.rows, 1e-3, 1, w.micro)
			must(t, err)
			mean, tokens, err := a.LossSFT(t.Context(), out.rows, w.micro)
			must(t, err)
			out.numbers = append(out.numbers, st.Loss, st.GradNorm, mean, float64(tokens))
		}
		out.weights = weightsOf(t, a, nil)
		return out
	}},
}

// updates runs UpdateActor on rows with old log-probs.
func updates(t *testing.T, a *Actor, o PolicyOptions) training {
	t.Helper()
	rows := trainRows(8)
	must(t, LogProbs(t.Context(), a.Compute(), rows, o.Micro, o.Temperature, OldLogProbs))
	st, err := a.UpdateActor(t.Context(), rows, 1e-3, o)
	must(t, err)
	return training{numbersOf(st, CriticStats{}), rows, weightsOf(t, a, nil)}
}

func numbersOf(st PolicyStats, c CriticStats) []float64 {
	return []float64{
		st.Loss, st.KL, st.ClipFrac, st.ClipFracLower, st.PPOKL, st.Entropy, st.GradNorm, float64(st.Steps), st.Gap.Mean, st.Gap.K3,
		st.Value.Loss, st.Value.Mean, st.Value.GradNorm, c.Loss, c.Mean, c.GradNorm, float64(c.Steps),
	}
}

// TestRanks checks that losses, gradient norms, per-token fields and weights after 10 optimiser steps depend neither on the
// number of ranks nor on the level of sharding, and are equal on all ranks to the last bit.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		dt  torch.DType
		tol float64
	}{{torch.Float64, 1e-10}, {torch.Float32, 1e-4}} {
		for i, r := range parallelRuns {
			if c.dt == torch.Float32 && (testing.Short() || i != 0 && i != 4) {
				continue // the two cover the rounding of float32
			}
			t.Run(fmt.Sprintf("%s in %s", r.name, c.dt), func(t *testing.T) {
				want := r.run(t, world{dt: c.dt, micro: MicroBatching{Rows: 2}})
				whole := c.dt == torch.Float64 && (i == 0 || i == 4) // one run with all weights trained and one with a critic
				for _, n := range []int{2, 4} {
					for _, level := range []shard.Level{shard.None, shard.Optimizer, shard.Gradients, shard.Weights} {
						if !whole && (n == 4) != (level == shard.None || level == shard.Gradients) {
							continue
						}
						if testing.Short() && (n == 4 || i != 0 && level != shard.Weights) { // all levels once, and the weights gathered by all methods
							continue
						}
						got := make([]training, n)
						onRanks(t, n, func(rank int, g *dist.Group) {
							got[rank] = r.run(t, world{c.dt, MicroBatching{Rows: 2, Group: g}, level})
						})
						if t.Failed() {
							t.Fatalf("%d ranks, shards of %s", n, level)
						}
						for rank := range got[1:] {
							if !reflect.DeepEqual(got[rank+1], got[0]) {
								t.Errorf("%d ranks, shards of %s: the results of rank %d and rank 0 differ", n, level, rank+1)
							}
						}
						compareTraining(t, fmt.Sprintf("%d ranks, shards of %s", n, level), got[0], want, c.tol)
					}
				}
			})
		}
	}
}

// compareTraining fails the test if results differ from those of one process by more than tol.
func compareTraining(t *testing.T, what string, got, want training, tol float64) {
	t.Helper()
	off := func(got, want []float64) float64 {
		worst := 0.0
		for i := range want {
			if d := math.Abs(got[i]-want[i]) / math.Max(1, math.Abs(want[i])); !(d <= worst) {
				worst = d
			}
		}
		return worst
	}
	worst := off(got.numbers, want.numbers)
	if !(worst <= tol) {
		t.Errorf("%s: the statistics are %v, want %v", what, got.numbers, want.numbers)
	}
	for _, name := range slices.Sorted(maps.Keys(want.weights)) {
		d := off(got.weights[name], want.weights[name])
		if worst = math.Max(worst, d); !(d <= tol) {
			t.Errorf("%s: %s differs by %.2g", what, name, d)
		}
	}
	for i := range want.rows {
		for k, f := range []field{OldLogProbs, Entropies, values, sumPiSquared} {
			a, b := *f(&got.rows[i]), *f(&want.rows[i])
			if b == nil && LossTokens(want.rows[i:i+1]) == 0 {
				b = make([]float32, len(a)) // a micro-batch without a token in the loss is not computed
			}
			for j := range max(len(a), len(b)) {
				if d := math.Abs(float64(a[j] - b[j])); !(d <= math.Max(tol, 1e-5)) {
					t.Fatalf("%s: field %d of row %d, token %d is %v, want %v", what, k, i, j, a[j], b[j])
				}
			}
		}
	}
	t.Logf("%s: largest difference %.2g", what, worst)
}

// TestRanksSkipTogether checks that a loss or a gradient that is NaN on one rank is skipped on all ranks with the same cause,
// and that a third one in a row ends the run on all ranks.
func TestRanksSkipTogether(t *testing.T) {
	for _, what := range []string{"loss", "gradient"} {
		t.Run(what, func(t *testing.T) {
			causes := make([]string, 3)
			onRanks(t, 3, func(rank int, g *dist.Group) {
				a := actorOf(t, torch.Float32, nil)
				before := weightsOf(t, a, nil)
				a.OnBadStep(func(b BadStep) error {
					causes[rank] += b.Cause.Error() + "\n"
					return nil
				})
				o := policyOptions(MicroBatching{Rows: 1, Group: g})
				for i := range maxBadSteps {
					if a.SpoilLoss(nil); rank == 1 {
						spoiled := 0
						a.SpoilLoss(func(l torch.Tensor) torch.Tensor {
							if spoiled++; spoiled > 1 {
								return l
							}
							if what == "loss" {
								return l.MulScalar(math.NaN())
							}
							return l.Sub(l.Detach()).Sqrt() // 0 with an infinite derivative
						})
					}
					st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-3, o)
					_, diverged := errors.AsType[*DivergedError](err)
					if diverged != (i == maxBadSteps-1) || !diverged && (err != nil || st.Skipped != 1) {
						t.Errorf("rank %d, step %d: statistics %+v and error %v", rank, i, st, err)
					}
				}
				if !reflect.DeepEqual(weightsOf(t, a, nil), before) {
					t.Errorf("rank %d: the weights changed", rank)
				}
				a.SpoilLoss(nil)
				st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-3, o) // no gradient is left from the skipped steps
				alone, errAlone := actorOf(t, torch.Float32, nil).UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(MicroBatching{Rows: 1}))
				if err != nil || errAlone != nil || math.Abs(st.GradNorm-alone.GradNorm) > 1e-4*alone.GradNorm {
					t.Errorf("rank %d: the next step has the norm %v, want %v (errors %v, %v)", rank, st.GradNorm, alone.GradNorm, err, errAlone)
				}
			})
			if causes[0] == "" || causes[0] != causes[1] || causes[0] != causes[2] {
				t.Errorf("causes %q, want the same on all ranks", causes)
			}
		})
	}
}

// TestRankFails checks that the failure of one rank ends the pass of the others with an error.
func TestRankFails(t *testing.T) {
	t.Parallel() // waits for the names of the ranks
	errs := make([]error, 2)
	onRanks(t, 2, func(rank int, g *dist.Group) {
		a := actorOf(t, torch.Float32, nil)
		if rank == 1 {
			a.SpoilLoss(func(l torch.Tensor) torch.Tensor { return l.Reshape(7) })
		}
		_, errs[rank] = a.UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(MicroBatching{Rows: 1, Group: g}))
	})
	if errs[0] == nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "Reshape") {
		t.Errorf("errors %v, want a failed operation on rank 1 and a failed collective on rank 0", errs)
	}
}

// TestDeal checks the distribution of rows.
func TestDeal(t *testing.T) {
	lengths := []int{3, 9, 5, 5, 1, 9}
	rows := make([]data.Row, len(lengths))
	for i, n := range lengths {
		rows[i].Tokens = make([]int32, n)
	}
	for _, c := range []struct {
		ranks int
		want  [][]int
	}{
		{1, [][]int{{0, 1, 2, 3, 4, 5}}},
		{2, [][]int{{0, 1, 2}, {3, 4, 5}}},
		{8, [][]int{{1}, {5}, {2}, {3}, {0}, {4}, nil, nil}},
	} {
		got := make([][]int, 0, c.ranks)
		hands, err := MicroBatching{Rows: 2}.dealTo(c.ranks, rows)
		must(t, err)
		for _, h := range hands {
			got = append(got, h.index)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d ranks get the rows %v, want %v", c.ranks, got, c.want)
		}
	}
}

// TestIdleRanksLendTheirProcessors checks the number of threads of each rank during a pass and after it.
func TestIdleRanksLendTheirProcessors(t *testing.T) {
	for _, c := range []struct {
		name        string
		ranks, rows int
		cpus        int
		lockstep    bool
		busy        int // threads of a rank with rows during the pass; 0: those of the process
	}{
		{name: "one row", ranks: 2, rows: 1, cpus: 6, busy: 6},
		{name: "two rows", ranks: 3, rows: 2, cpus: 6, busy: 3},
		{name: "a row for each", ranks: 2, rows: 2, cpus: 6},
		{name: "fewer processors than ranks", ranks: 3, rows: 2, cpus: 1},
		{name: "processors of their own", ranks: 2, rows: 1},
		{name: "idle ranks compute too", ranks: 2, rows: 1, cpus: 6, lockstep: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			disttest.Run(t, c.ranks, func(th *torch.Thread, g *dist.Group) error {
				calls := 0
				err := eachMicroBatch(t.Context(), th, trainRows(c.rows), MicroBatching{Group: g, CPUs: c.cpus}, c.lockstep, func(*packed) error {
					calls++
					if want := cmp.Or(c.busy, torch.NumThreads()); th.NumThreads() != want {
						t.Errorf("rank %d has %d threads in the pass, want %d", g.Rank(), th.NumThreads(), want)
					}
					return nil
				})
				if want := g.Rank() < c.rows || c.lockstep; (calls > 0) != want {
					t.Errorf("rank %d has %d micro-batches", g.Rank(), calls)
				}
				if th.NumThreads() != torch.NumThreads() {
					t.Errorf("rank %d has %d threads after the pass, want %d", g.Rank(), th.NumThreads(), torch.NumThreads())
				}
				return err
			})
		})
	}
}
