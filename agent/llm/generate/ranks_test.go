package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
)

// saveWide writes a model with random weights that can be tensor parallel over 4 ranks, and returns its folder.
func saveWide(t testing.TB) string {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	m, err := model.New(t.Context(), th, model.Config{
		ModelType: "qwen2", VocabSize: 301, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 8, NumKeyValueHeads: 2,
		HeadDim: 8, MaxPositionEmbeddings: 256, RMSNormEps: 1e-6, RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: 0.3,
	}, 1, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	if err := m.SaveWeights(t.Context(), dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serving opens this rank's part of a model. On rank 0 it calls lead with the backend; the other ranks follow it.
func serving(th *torch.Thread, g *dist.Group, dir string, o Options, lead func(b *Backend) error) error {
	ctx := context.Background()
	opened, err := model.Open(ctx, th, dir, model.Options{TokenizerOptional: true, Ranks: g})
	if err != nil {
		return err
	}
	defer opened.Close()
	b, err := New(ctx, opened.Model, o)
	if err != nil {
		return err
	}
	defer b.Close()
	if g != nil && g.Rank() > 0 {
		err = b.Follow(ctx)
	} else {
		if err := b.Lead(); err != nil {
			return err
		}
		err = errors.Join(lead(b), b.Dismiss())
	}
	if seqs, used := b.live(); err == nil && (seqs != 0 || used != 0) {
		return fmt.Errorf("%d sequences and %d blocks are in use, want none", seqs, used)
	}
	return err
}

// replies are the results of several sessions.
type replies struct {
	ids   [][]int32
	logps [][]float32
}

// talk runs n sessions of two turns. All sessions play the first turn at once, then all play the second, so that all hold memory
// between the turns unless some are parked. Sessions of the same prompt share its blocks.
func talk(b *Backend, n int, o engine.Options, check func(engine.Stats) error) (out replies, err error) {
	s, err := engine.New(b, o)
	if err != nil {
		return out, err
	}
	defer s.Shutdown()
	ctx := context.Background()
	sessions := make([]*engine.Session, n)
	for i := range sessions {
		if sessions[i], err = s.Open(ctx, engine.SessionOptions{Key: engine.Key{Seed: 3, Task: "maze", Sample: i}, MaxContext: 200}); err != nil {
			return out, err
		}
		defer s.Close(sessions[i])
	}
	out = replies{make([][]int32, n), make([][]float32, n)}
	for turn, length := range []int{37, 5} {
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i, session := range sessions {
			wg.Go(func() {
				p := engine.Params{MaxNew: 8, Temperature: 0.9, TopP: 1, Turn: turn}
				switch i % 4 {
				case 1:
					p.TopK = 7
				case 2:
					p.TopP = 0.8
				case 3:
					p.Greedy = true
				}
				r, err := s.Generate(ctx, session, ids(length, i%3), p)
				errs[i] = err
				out.ids[i], out.logps[i] = append(out.ids[i], r.IDs...), append(out.logps[i], r.LogProbs...)
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return out, err
		}
	}
	return out, check(s.Stats())
}

// TestRanks checks that a tensor-parallel model samples the tokens of the whole model.
func TestRanks(t *testing.T) {
	dir := saveWide(t)
	const n = 8
	for _, test := range []struct {
		name  string
		ranks int
		kv    int
		o     engine.Options
		check func(engine.Stats) error
	}{
		{"shared prefixes", 4, 4096, engine.Options{}, func(s engine.Stats) error {
			if s.SharedTokens == 0 {
				return errors.New("no prefix was shared")
			}
			return nil
		}},
		{"parked sessions", 2, 208, engine.Options{}, func(s engine.Stats) error {
			if s.Parked == 0 {
				return errors.New("no session was parked")
			}
			return nil
		}},
		{"small chunks", 2, 4096, engine.Options{ChunkTokens: 5, PrefillTokens: 9, NoSharing: true}, func(engine.Stats) error { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want replies
			for ranks := 1; ranks <= test.ranks; ranks *= 2 {
				disttest.Run(t, ranks, func(th *torch.Thread, g *dist.Group) error {
					return serving(th, g, dir, Options{KVTokens: test.kv, BlockSize: 16}, func(b *Backend) error {
						got, err := talk(b, n, test.o, test.check)
						if err != nil {
							return err
						}
						if ranks == 1 {
							want = got
							return nil
						}
						for i := range want.ids {
							if !equal(got.ids[i], want.ids[i]) {
								t.Errorf("%d ranks, session %d: got tokens %v, want %v as on one rank", ranks, i, got.ids[i], want.ids[i])
								continue
							}
							for j, lp := range want.logps[i] {
								if d := math.Abs(float64(lp - got.logps[i][j])); !(d <= tolerance) {
									t.Errorf("%d ranks, session %d: log-prob %d differs by %.2g", ranks, i, j, d)
								}
							}
						}
						return nil
					})
				})
			}
		})
	}
}

// TestRanksLongBatch checks a batch that does not fit into the first packet of a message, and a batch with an error, after which
// the ranks continue.
func TestRanksLongBatch(t *testing.T) {
	dir := saveWide(t)
	var want []engine.Sampled
	for _, ranks := range []int{1, 2} {
		disttest.Run(t, ranks, func(th *torch.Thread, g *dist.Group) error {
			return serving(th, g, dir, Options{KVTokens: 4096, BlockSize: 16}, func(b *Backend) error {
				var batch []engine.Work
				for i := range 50 {
					batch = append(batch, sampling(engine.SeqID(i+1), ids(60, i), 0, i))
				}
				if _, err := b.Step(t.Context(), []engine.Work{sampling(99, ids(1, 0), 7, 0)}); err == nil {
					return errors.New("no error for a gap in a sequence")
				}
				got, err := b.Step(t.Context(), batch)
				if err != nil {
					return err
				}
				for i := range batch {
					b.Drop(batch[i].Seq)
				}
				if ranks == 1 {
					want = got
					return nil
				}
				for i := range want {
					if got[i].Token != want[i].Token {
						t.Errorf("sequence %d: token %d, want %d", i, got[i].Token, want[i].Token)
					}
				}
				return nil
			})
		})
	}
}

// TestRanksPhases checks phases of generation with other collectives between them, as in training, and a pause that is longer than
// the group's time-out. The memory of the cache is freed between the phases, when rank 1 does not know yet that rank 0 has dropped the sequence.
func TestRanksPhases(t *testing.T) {
	dir := saveWide(t)
	const timeout = time.Second
	errs := disttest.Errors(t, 2, timeout, func(th *torch.Thread, g *dist.Group) error {
		ctx := t.Context()
		opened, err := model.Open(ctx, th, dir, model.Options{TokenizerOptional: true, Ranks: g})
		if err != nil {
			return err
		}
		defer opened.Close()
		b, err := New(ctx, opened.Model, Options{KVTokens: 32, BlockSize: 16})
		if err != nil {
			return err
		}
		defer b.Close()
		var first, out []engine.Sampled
		for phase := range 3 {
			if g.Rank() == 1 {
				err = b.Follow(ctx)
			} else if err = b.Lead(); err == nil {
				if phase == 1 {
					time.Sleep(timeout + timeout/2)
				}
				out, err = b.Step(ctx, []engine.Work{sampling(engine.SeqID(phase+1), ids(20, 0), 0, 0)})
				err = errors.Join(err, b.Dismiss())
				b.Drop(engine.SeqID(phase + 1))
			}
			if err = errors.Join(err, b.Release(ctx)); err != nil {
				return fmt.Errorf("phase %d: %w", phase, err)
			}
			if first == nil {
				first = out
			}
			if !reflect.DeepEqual(out, first) {
				return fmt.Errorf("phase %d: got %v, want %v as in the first phase", phase, out, first)
			}
			if sequences, blocks := b.live(); sequences != 0 || blocks != 0 {
				return fmt.Errorf("phase %d: %d sequences and %d blocks are in use, want none", phase, sequences, blocks)
			}
			if err := g.Barrier(ctx); err != nil {
				return err
			}
		}
		if _, err := b.Step(ctx, []engine.Work{sampling(9, ids(20, 1), 0, 0)}); g.Rank() == 0 && err == nil {
			return errors.New("a step outside of Lead and Dismiss succeeded")
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestLostRank checks the errors of rank 0 when another rank ends or hangs.
func TestLostRank(t *testing.T) {
	dir := saveWide(t)
	for _, test := range []struct {
		name string
		lose func(g *dist.Group, hang chan struct{})
	}{
		{"ended", func(g *dist.Group, _ chan struct{}) { g.Abort() }},
		{"hung", func(_ *dist.Group, hang chan struct{}) { <-hang }},
	} {
		t.Run(test.name, func(t *testing.T) {
			hang := make(chan struct{})
			errs := disttest.Errors(t, 2, time.Second, func(th *torch.Thread, g *dist.Group) error {
				opened, err := model.Open(t.Context(), th, dir, model.Options{TokenizerOptional: true, Ranks: g})
				if err != nil {
					return err
				}
				defer opened.Close()
				b, err := New(t.Context(), opened.Model, Options{KVTokens: 256, BlockSize: 16})
				if err != nil {
					return err
				}
				defer b.Close()
				if g.Rank() == 1 {
					test.lose(g, hang)
					return nil
				}
				defer close(hang)
				if err := b.Lead(); err != nil {
					return err
				}
				_, err = talk(b, 2, engine.Options{}, func(engine.Stats) error { return nil })
				if dismissed := b.Dismiss(); dismissed == nil {
					t.Error("Dismiss succeeded without the other rank")
				}
				return err
			})
			var failed *engine.BackendError
			if err := errs[0]; !errors.As(err, &failed) || !strings.Contains(err.Error(), "rank 1") {
				t.Errorf("error %v, want a BackendError that names rank 1", err)
			}
		})
	}
}

// TestFollowerFails checks that an error of another rank ends the step of rank 0.
func TestFollowerFails(t *testing.T) {
	dir := saveWide(t)
	errs := disttest.Errors(t, 2, disttest.Timeout, func(th *torch.Thread, g *dist.Group) error {
		return serving(th, g, dir, Options{KVTokens: 256 >> g.Rank(), BlockSize: 16}, func(b *Backend) error { // rank 1 has less memory
			_, err := b.Step(t.Context(), []engine.Work{sampling(1, ids(100, 0), 0, 0), sampling(2, ids(100, 0), 0, 0)})
			return err
		})
	})
	for r, err := range errs {
		if err == nil {
			t.Errorf("rank %d has no error", r)
		}
	}
}
