package generate

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// tolerance bounds the effect of batch composition on a log-prob in float32.
const tolerance = 1e-4

// rollout computes a prompt in chunks and samples n tokens. The batches have no
// other sequence.
func rollout(t *testing.T, b *Backend, seq engine.SeqID, prompt []int32, chunk, n int, temperature float32) (tokens []int32, logps []float32) {
	t.Helper()
	pos := 0
	for len(prompt)-pos > chunk {
		w := sampling(seq, prompt[pos:pos+chunk], pos, 0)
		w.Sample = false
		step(t, b, w)
		pos += chunk
	}
	next := prompt[pos:]
	for range n {
		w := sampling(seq, next, pos, 0)
		w.Temperature = temperature
		s := step(t, b, w)[0]
		pos += len(next)
		tokens, logps = append(tokens, s.Token), append(logps, s.LogProb)
		next = []int32{s.Token}
	}
	return tokens, logps
}

// TestLogProbs checks that the log-probs of sampling equal those of the
// training forward pass, at several temperatures and chunk sizes.
func TestLogProbs(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 512, BlockSize: 16})
	var first []int32
	for i, tt := range []struct {
		chunk       int
		temperature float32
	}{{100, 1}, {7, 1}, {1, 1}, {100, 0.7}, {16, 1.9}} {
		seq := engine.SeqID(i + 1)
		prompt := ids(50, 1)
		tokens, logps := rollout(t, b, seq, prompt, tt.chunk, 30, tt.temperature)
		want, err := m.LogProbs(context.Background(), float64(tt.temperature), append(prompt, tokens...))
		if err != nil {
			t.Fatal(err)
		}
		for j, lp := range want[0][len(prompt)-1:] {
			if d := math.Abs(float64(lp - logps[j])); !(d <= tolerance) {
				t.Errorf("chunks of %d at temperature %v: log-prob of token %d is off by %.2g", tt.chunk, tt.temperature, j, d)
			}
		}
		if tt.temperature == 1 {
			if first == nil {
				first = tokens
			} else if !equal(first, tokens) {
				t.Errorf("chunks of %d: got tokens %v, want %v as with one chunk", tt.chunk, tokens, first)
			}
		}
		b.Drop(seq)
	}
	checkNothingInUse(t, b)
}

// TestUnwrittenCache checks that the samples are the same whether the cache
// initially contains zeros or NaN.
func TestUnwrittenCache(t *testing.T) {
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		m := openModel(t, dt)
		clean := newBackend(t, m, Options{KVTokens: 1024, BlockSize: 32})
		dirty := newBackend(t, m, Options{KVTokens: 1024, BlockSize: 32})
		for b, v := range map[*Backend]float64{clean: 0, dirty: math.NaN()} {
			if err := torch.Run(context.Background(), m.Thread(), func(s *torch.Scope) error {
				s.NoGrad(func() {
					for i := range b.cache.K {
						b.cache.K[i].Copy_(s.Full(v, dt))
						b.cache.V[i].Copy_(s.Full(v, dt))
					}
				})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for i, prompt := range []int{1, 5, 31, 32, 33, 70, 129, 200, 300} {
			for _, chunk := range []int{1, 7, 64, 300} {
				seq := engine.SeqID(1000*i + chunk + 1)
				want, wantLP := rollout(t, clean, seq, ids(prompt, i), chunk, 5, 1)
				got, gotLP := rollout(t, dirty, seq, ids(prompt, i), chunk, 5, 1)
				if !equal(want, got) || !slices.Equal(wantLP, gotLP) {
					t.Errorf("%s, prompt of %d in chunks of %d: tokens and log-probs %v %v, want %v %v", dt, prompt, chunk, got, gotLP, want, wantLP)
				}
				clean.Drop(seq)
				dirty.Drop(seq)
			}
		}
	}
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestBatchComposition checks that a sequence has the same samples alone and in
// batches with prefills and decodes of other sequences.
func TestBatchComposition(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 8192, BlockSize: 32})
	prompt := ids(41, 2)
	alone, aloneLP := rollout(t, b, 1, prompt, 41, 40, 1)

	// In the batches, the sequence continues with the tokens that were sampled
	// alone, so that every position is compared even if rounding changes a
	// draw.
	const others = 18
	pos := map[engine.SeqID]int{}
	next, at := prompt, 0
	for i, want := range alone {
		batch := []engine.Work{sampling(100, next, at, 0)}
		for c := range others {
			seq := engine.SeqID(200 + c)
			n := 1 + (c*5+i*3)%29
			if c%3 != 0 {
				n = 1
			}
			if pos[seq]+n > 400 {
				continue
			}
			batch = append(batch, sampling(seq, ids(n, c+i), pos[seq], c))
			pos[seq] += n
		}
		// The compared sequence changes its place in the batch.
		place := i % len(batch)
		batch[0], batch[place] = batch[place], batch[0]
		got := step(t, b, batch...)[place]
		if d := math.Abs(float64(got.LogProb - aloneLP[i])); got.Token == want && !(d <= tolerance) {
			t.Errorf("token %d: log-prob is %v alone and %v in a batch", i, aloneLP[i], got.LogProb)
		}
		if got.Token != want {
			t.Errorf("token %d is %d alone and %d in a batch", i, want, got.Token)
		}
		at += len(next)
		next = []int32{want}
	}
}

// TestSampledFrequencies checks the frequencies of many draws from one distribution.
func TestSampledFrequencies(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 64 * 64, BlockSize: 16})
	prompt := ids(9, 4)
	const draws, rows = 4096, 64
	counts := map[int32]int{}
	probs := map[int32]float64{}
	for i := range draws / rows {
		var batch []engine.Work
		for j := range rows {
			batch = append(batch, sampling(engine.SeqID(i*rows+j+1), prompt, 0, i*rows+j))
		}
		for _, s := range step(t, b, batch...) {
			counts[s.Token]++
			probs[s.Token] = math.Exp(float64(s.LogProb))
		}
		for _, w := range batch {
			b.Drop(w.Seq)
		}
	}
	// Each count must be within five standard deviations of its expectation.
	for id, n := range counts {
		p := probs[id]
		want, sd := draws*p, math.Sqrt(draws*p*(1-p))
		if math.Abs(float64(n)-want) > 5*sd+1 {
			t.Errorf("token %d was drawn %d times, expected %.0f ± %.0f", id, n, want, sd)
		}
	}
	if len(counts) < 5 {
		t.Errorf("%d different tokens were drawn, want at least 5", len(counts))
	}
}

func TestDrawKey(t *testing.T) {
	base := engine.Draw{Seed: 1, Task: 2, Sample: 3, Turn: 4}
	seen := map[uint64]string{drawKey(base): "base"}
	for name, d := range map[string]engine.Draw{
		"seed": {Seed: 2, Task: 2, Sample: 3, Turn: 4}, "task": {Seed: 1, Task: 3, Sample: 3, Turn: 4},
		"sample": {Seed: 1, Task: 2, Sample: 4, Turn: 4}, "turn": {Seed: 1, Task: 2, Sample: 3, Turn: 5},
		"swapped": {Seed: 1, Task: 2, Sample: 4, Turn: 3},
	} {
		k := drawKey(d)
		if other, ok := seen[k]; ok {
			t.Errorf("draws %s and %s have the same key", name, other)
		}
		seen[k] = name
	}
	d := base
	d.Position = 99
	if drawKey(d) != drawKey(base) {
		t.Error("the key depends on the position, want a key without it")
	}
}

func TestInvalidSteps(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 64, BlockSize: 16})
	step(t, b, sampling(1, ids(10, 0), 0, 0))
	for _, tt := range []struct {
		name  string
		batch []engine.Work
		want  string
	}{
		{"gap", []engine.Work{sampling(1, ids(1, 0), 11, 0)}, "tokens for position 11, but 10 are cached"},
		{"unknown sequence", []engine.Work{sampling(2, ids(1, 0), 5, 0)}, "but 0 are cached"},
		{"nothing", []engine.Work{sampling(1, nil, 10, 0)}, "without tokens"},
		{"bad id", []engine.Work{sampling(1, []int32{288}, 10, 0)}, "the vocabulary has 288"},
		{"twice", []engine.Work{sampling(1, ids(1, 0), 10, 0), sampling(1, ids(1, 0), 10, 0)}, "twice"},
		{"full", []engine.Work{sampling(3, ids(60, 0), 0, 0)}, "the KV cache is full"},
		{"too long", []engine.Work{sampling(4, ids(513, 0), 0, 0)}, "512 positions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.Step(context.Background(), tt.batch)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v does not contain %q", err, tt.want)
			}
		})
	}
	for seq := range engine.SeqID(5) {
		b.Drop(seq)
	}
	checkNothingInUse(t, b)
}

func TestOptions(t *testing.T) {
	m := openModel(t, torch.Float32)
	for _, tt := range []struct {
		name     string
		o        Options
		capacity int
		err      string
	}{
		{"tokens", Options{KVTokens: 100, BlockSize: 16}, 112, ""},
		{"default block", Options{KVTokens: 64}, 64, ""},
		{"no tokens", Options{}, 0, "must be positive"},
		{"negative block", Options{KVTokens: 1, BlockSize: -1}, 0, "must be positive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := New(context.Background(), m, tt.o)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v does not contain %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if b.Capacity() != tt.capacity {
				t.Errorf("capacity is %d, want %d", b.Capacity(), tt.capacity)
			}
		})
	}
}

// TestBFloat16 checks the gap between log-probs of sampling and of training in bfloat16.
func TestBFloat16(t *testing.T) {
	m := openModel(t, torch.BFloat16)
	b := newBackend(t, m, Options{KVTokens: 256})
	prompt := ids(20, 5)
	tokens, logps := rollout(t, b, 1, prompt, 20, 40, 1)
	want, err := m.LogProbs(context.Background(), 1, append(prompt, tokens...))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, lp := range want[0][len(prompt)-1:] {
		sum += math.Abs(float64(lp - logps[i]))
	}
	if mean := sum / float64(len(tokens)); !(mean < 0.03) {
		t.Errorf("mean gap %v, want less than 0.03", mean)
	}
}
