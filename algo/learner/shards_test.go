package learner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestShardsAreSaved checks that the files of a sharded actor, adapters and critic are those of one process for any number of ranks,
// that a run goes on with another number of ranks, and that an interruption changes no bit with the same number.
func TestShardsAreSaved(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := t.TempDir()
			// train continues a run for some steps and saves it. It returns the gradient norms.
			train := func(w world, rank int, from, to string, steps int) []float64 {
				th, err := torch.NewThread(torchtest.Device(t))
				must(t, err)
				defer th.Close()
				a := loadActor(t, th, w, kind.lora, from)
				defer a.Close()
				var norms []float64
				for range steps {
					st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-2, policyOptions(w.micro))
					must(t, err)
					norms = append(norms, st.GradNorm)
				}
				if rank == 0 {
					must(t, os.Mkdir(to, 0o755))
				}
				if w.micro.Group != nil {
					must(t, w.micro.Group.Barrier(t.Context()))
				}
				if w.level == shard.None && rank > 0 {
					return norms // rank 0 has everything
				}
				save := a.master.SaveWeights
				if kind.lora != nil {
					save = func(ctx context.Context, dir string, _ torch.DType) error { return a.master.SaveAdapters(ctx, dir) }
				}
				must(t, save(t.Context(), to, w.dt))
				must(t, a.SaveOptimizer(t.Context(), to))
				return norms
			}
			alone := world{dt: torch.Float64, micro: MicroBatching{Rows: 2}}
			dir := func(name string) string { return filepath.Join(root, name) }
			train(alone, 0, "", dir("start"), 2)
			want := train(alone, 0, dir("start"), dir("want"), 3)
			levels := []shard.Level{shard.None, shard.Optimizer, shard.Gradients, shard.Weights}
			if kind.lora != nil {
				levels = []shard.Level{shard.Gradients, shard.Weights}
			}
			if testing.Short() {
				levels = levels[len(levels)-1:]
			}
			for _, level := range levels {
				t.Run(level.String(), func(t *testing.T) {
					at := func(stage string) string { return dir(stage + level.String()) }
					onRanks(t, 4, func(rank int, g *dist.Group) { // loading and saving change nothing
						train(world{torch.Float64, MicroBatching{Rows: 2, Group: g}, level}, rank, dir("start"), at("copy"), 0)
					})
					sameFiles(t, at("copy"), dir("start"))
					onRanks(t, 3, func(rank int, g *dist.Group) {
						w := world{torch.Float64, MicroBatching{Rows: 2, Group: g}, level}
						train(w, rank, dir("start"), at("whole"), 2)
						train(w, rank, dir("start"), at("half"), 1)
						must(t, g.Barrier(t.Context())) // rank 0 writes
						train(w, rank, at("half"), at("resumed"), 1)
					})
					sameFiles(t, at("resumed"), at("whole"))
					var got []float64
					from := dir("start")
					for i, n := range []int{2, 1, 4} {
						to := at(fmt.Sprint(i))
						norms := make([][]float64, n)
						onRanks(t, n, func(rank int, g *dist.Group) {
							w := world{torch.Float64, MicroBatching{Rows: 2, Group: g}, level}
							if g == nil {
								w.level = shard.None
							}
							norms[rank] = train(w, rank, from, to, 1)
						})
						got, from = append(got, norms[0]...), to
					}
					for i := range want {
						if d := math.Abs(got[i] - want[i]); !(d <= 1e-10*want[i]) {
							t.Errorf("the norms of three steps with 2, 1 and 4 ranks are %v, want %v", got, want)
							break
						}
					}
				})
			}
		})
	}
}

// loadActor makes the actor of actorOn with the weights and the optimiser of a folder, unless it is "".
func loadActor(t *testing.T, th *torch.Thread, w world, lora *model.LoRA, dir string) *Actor {
	t.Helper()
	m, err := model.New(t.Context(), th, tinyConfig(), 11, w.dt)
	must(t, err)
	if dir != "" && lora == nil {
		m.Close()
		b, err := model.Open(t.Context(), th, dir, model.Options{DType: w.dt, TokenizerOptional: true})
		must(t, err)
		m = b.Model
	}
	if lora != nil {
		must(t, m.AddLoRA(t.Context(), *lora, 4))
		if dir != "" {
			must(t, m.LoadAdapters(t.Context(), dir))
		}
	}
	must(t, m.Shard(t.Context(), w.options()))
	a, err := NewActor(t.Context(), m, w.dt, optim.DefaultAdamW())
	must(t, err)
	if dir != "" {
		must(t, a.LoadOptimizer(t.Context(), dir))
	}
	return a
}

func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	entries, err := os.ReadDir(want)
	must(t, err)
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(got, e.Name()))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(want, e.Name()))
		must(t, err)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s differs", e.Name())
		}
	}
	if len(entries) < 3 {
		t.Errorf("%d files, want weights, configuration and optimiser", len(entries))
	}
}

// TestShardsOfBFloat16 checks that a sharded actor with bfloat16 weights and float32 masters trains like one that is not
// sharded, also after GatherWeights, and that its copies are the same.
func TestShardsOfBFloat16(t *testing.T) {
	type result struct {
		norms   []float64
		weights map[string][]float64
		hash    string
	}
	train := func(g *dist.Group, level shard.Level) result {
		th, err := torch.NewThread(torchtest.Device(t))
		must(t, err)
		defer th.Close()
		m, err := model.New(t.Context(), th, tinyConfig(), 11, torch.Float32)
		must(t, err)
		must(t, m.Shard(t.Context(), shard.Options{Group: g, Level: level, Compute: torch.BFloat16}))
		a, err := NewActor(t.Context(), m, torch.BFloat16, optim.DefaultAdamW())
		must(t, err)
		defer a.Close()
		var out result
		for i := range 6 {
			if i == 3 {
				must(t, a.GatherWeights(t.Context())) // the step refreshes gathered weights
			}
			st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-4, policyOptions(MicroBatching{Rows: 1, Group: g}))
			must(t, err)
			out.norms = append(out.norms, st.GradNorm)
		}
		must(t, a.ReleaseWeights(t.Context()))
		copied, err := a.Master().Shadow(t.Context(), torch.Float32)
		must(t, err)
		defer copied.Close()
		must(t, torch.Run(t.Context(), th, func(*torch.Scope) error {
			out.weights = map[string][]float64{}
			for _, p := range copied.Params() {
				out.weights[p.Name] = p.Tensor.ToFloat64s()
			}
			return nil
		}))
		out.hash, err = a.Compute().Hash(t.Context())
		must(t, err)
		shadow, err := copied.Shadow(t.Context(), torch.BFloat16)
		must(t, err)
		defer shadow.Close()
		if want, err := shadow.Hash(t.Context()); err != nil || want != out.hash {
			t.Errorf("shards of %s: the compute weights are not the rounded masters (%v)", level, err)
		}
		return out
	}
	want := make([]result, 2)
	onRanks(t, 2, func(rank int, g *dist.Group) { want[rank] = train(g, shard.None) })
	for _, level := range []shard.Level{shard.Optimizer, shard.Gradients, shard.Weights} {
		got := make([]result, 2)
		onRanks(t, 2, func(rank int, g *dist.Group) { got[rank] = train(g, level) })
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("shards of %s: the ranks differ", level)
		}
		for i, norm := range want[0].norms {
			if d := math.Abs(got[0].norms[i] - norm); !(d <= 1e-2*norm) {
				t.Errorf("shards of %s: the gradient norms are %v, want %v", level, got[0].norms, want[0].norms)
				break
			}
		}
		moved := 0.0
		for name, w := range want[0].weights {
			for i := range w {
				moved = math.Max(moved, math.Abs(got[0].weights[name][i]-w[i]))
			}
		}
		if !(moved < 2e-4) { // less than two of the six steps of 1e-4
			t.Errorf("shards of %s: a weight differs by %v", level, moved)
		}
	}
}

// TestShardsOfReference checks the KL over the whole vocabulary to a sharded reference, whose passes run inside the loss, for
// a model of its own and for the frozen weights under adapters.
func TestShardsOfReference(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			run := func(w world) training {
				a := w.actor(t, kind.lora)
				o := policyOptions(w.micro)
				o.KLType = kl.Full
				if kind.lora != nil {
					o.Reference = a.Master().Base()
				} else {
					ref, err := a.Master().Shadow(t.Context(), w.dt)
					must(t, err)
					frozen := w.options()
					frozen.Frozen = true
					must(t, ref.Shard(t.Context(), frozen))
					o.Reference = ref
				}
				defer o.Reference.Close()
				out := training{rows: trainRows(6)}
				for i := range 3 {
					if i == 2 && kind.lora == nil { // the reference alone is in lockstep
						must(t, a.GatherWeights(t.Context()))
						defer func() { must(t, a.ReleaseWeights(t.Context())) }()
						out.rows = append(out.rows, trainRows(9)[6:]...)
					}
					st, err := a.UpdateActor(t.Context(), out.rows, 1e-2, o)
					must(t, err)
					must(t, LogProbs(t.Context(), o.Reference, out.rows, w.micro, 1, RefLogProbs))
					out.numbers = append(out.numbers, st.Loss, st.KL, st.GradNorm)
				}
				must(t, torch.Run(t.Context(), a.master.Thread(), func(s *torch.Scope) error {
					if kind.lora == nil {
						o.Reference.CopyFrom(s, a.Master())
					}
					return nil
				}))
				must(t, LogProbs(t.Context(), o.Reference, out.rows, w.micro, 1, values))
				out.weights = weightsOf(t, a, nil)
				return out
			}
			want := run(world{dt: torch.Float64, micro: MicroBatching{Rows: 1}})
			got := make([]training, 2)
			onRanks(t, 2, func(rank int, g *dist.Group) {
				got[rank] = run(world{torch.Float64, MicroBatching{Rows: 1, Group: g}, shard.Weights})
			})
			if t.Failed() {
				t.FailNow()
			}
			compareTraining(t, "shards of weights", got[1], want, 1e-10)
		})
	}
}

// TestShardBytes checks the sizes of the tensors of a rank between steps.
func TestShardBytes(t *testing.T) {
	parameters := 0.0
	for _, p := range testActor(t, torch.Float32).Master().Params() {
		parameters += float64(p.Tensor.Numel())
	}
	for _, c := range []struct {
		level              shard.Level
		compute            torch.DType
		weights, optimizer float64 // in bytes a parameter, with 4 ranks
	}{
		{shard.None, torch.Float32, 4, 8},
		{shard.Optimizer, torch.Float32, 4, 2},
		{shard.Gradients, torch.Float32, 4, 2},
		{shard.Weights, torch.Float32, 1, 2},
		{shard.None, torch.BFloat16, 6, 8},
		{shard.Optimizer, torch.BFloat16, 3, 2},
		{shard.Weights, torch.BFloat16, 1.5, 2},
	} {
		t.Run(fmt.Sprintf("%s in %s", c.level, c.compute), func(t *testing.T) {
			onRanks(t, 4, func(_ int, g *dist.Group) {
				th, err := torch.NewThread(torchtest.Device(t))
				must(t, err)
				defer th.Close()
				m, err := model.New(t.Context(), th, tinyConfig(), 11, torch.Float32)
				must(t, err)
				must(t, m.Shard(t.Context(), shard.Options{Group: g, Level: c.level, Compute: c.compute}))
				a, err := NewActor(t.Context(), m, c.compute, optim.DefaultAdamW())
				must(t, err)
				defer a.Close()
				for range 2 {
					weights, optimizer := a.Bytes()
					if !near(weights, c.weights*parameters) || !near(optimizer, c.optimizer*parameters) {
						t.Errorf("%v and %v bytes a parameter, want %v and %v", weights/parameters, optimizer/parameters, c.weights, c.optimizer)
					}
					_, err = a.UpdateSFT(t.Context(), trainRows(4), 1e-3, 1, MicroBatching{Group: g})
					must(t, err)
				}
			})
		})
	}
}

// near allows the padding of the units.
func near(got, want float64) bool { return got >= want && got < 1.03*want }

// TestShardsSkip checks that a loss that is NaN on one rank is a skipped step on all ranks if gradients are summed before the
// verdict, and that the next step has no trace of it.
func TestShardsSkip(t *testing.T) {
	for _, level := range []shard.Level{shard.Optimizer, shard.Gradients, shard.Weights} {
		t.Run(level.String(), func(t *testing.T) {
			onRanks(t, 2, func(rank int, g *dist.Group) {
				w := world{torch.Float64, MicroBatching{Rows: 1, Group: g}, level}
				a := w.actor(t, nil)
				before := weightsOf(t, a, nil)
				if rank == 1 {
					a.SpoilLoss(func(l torch.Tensor) torch.Tensor { return l.MulScalar(math.NaN()) })
				}
				st, err := a.UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(w.micro))
				if err != nil || st.Skipped != 1 || !reflect.DeepEqual(weightsOf(t, a, nil), before) {
					t.Errorf("rank %d: %+v, error %v, want a skipped step", rank, st, err)
				}
				a.SpoilLoss(nil)
				st, err = a.UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(w.micro))
				alone, errAlone := actorOf(t, torch.Float64, nil).UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(MicroBatching{}))
				if err != nil || errAlone != nil || math.Abs(st.GradNorm-alone.GradNorm) > 1e-10*alone.GradNorm {
					t.Errorf("rank %d: the next step has the norm %v, want %v (errors %v, %v)", rank, st.GradNorm, alone.GradNorm, err, errAlone)
				}
			})
		})
	}
}

// TestShardsAreLost checks that a pass whose weights cannot be gathered returns the error of the group.
func TestShardsAreLost(t *testing.T) {
	t.Parallel() // waits for the names of the ranks
	disttest.Errors(t, 2, disttest.Timeout, func(_ *torch.Thread, g *dist.Group) error {
		a := actorOn(t, torch.Float32, nil, shard.Options{Group: g, Level: shard.Weights, Compute: torch.Float32})
		if g.Rank() == 1 {
			return errors.New("lost") // aborts the group
		}
		err := LogProbs(t.Context(), a.Compute(), trainRows(2), MicroBatching{Group: g}, 1, OldLogProbs)
		if lost, ok := errors.AsType[*dist.Error](err); !ok {
			t.Errorf("the pass returned %v (%v), want a dist.Error", err, lost)
		}
		return nil
	})
}
