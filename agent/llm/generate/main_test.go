package generate

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1) // a second thread makes the tests slower on busy cores
	torchtest.Main(m)
}

// openModel loads a tiny model of package model's tests: random weights large
// enough to give sharp distributions.
func openModel(t testing.TB, dt torch.DType) *model.Model {
	t.Helper()
	return openModelOn(t, torchtest.Device(t), dt)
}

func openModelOn(t testing.TB, d torch.Device, dt torch.DType) *model.Model {
	t.Helper()
	return openNamed(t, d, "llama-tied", dt)
}

// openNamed opens a tiny model of package model.
func openNamed(t testing.TB, d torch.Device, name string, dt torch.DType) *model.Model {
	t.Helper()
	th, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	b, err := model.Open(context.Background(), th, filepath.Join("..", "model", "testdata", name), model.Options{DType: dt, TokenizerOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Model
}

func newBackend(t testing.TB, m *model.Model, o Options) *Backend {
	t.Helper()
	b, err := New(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// ids returns n token ids that depend on the argument salt.
func ids(n, salt int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(3 + (i*i*7+i*(salt+11)+salt*31)%280)
	}
	return out
}

// sampling returns a Work that samples at temperature 1. The key of its draw depends
// on the argument sample and on the position.
func sampling(seq engine.SeqID, tokens []int32, pos, sample int) engine.Work {
	return engine.Work{
		Seq: seq, Tokens: tokens, Pos: pos, Sample: true, Temperature: 1, TopP: 1,
		Draw: engine.Draw{Seed: 7, Task: engine.TaskHash("t"), Sample: sample, Position: pos + len(tokens)},
	}
}

func step(t testing.TB, b *Backend, batch ...engine.Work) []engine.Sampled {
	t.Helper()
	out, err := b.Step(context.Background(), batch)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkNothingInUse fails the test if sequences or blocks are in use.
func checkNothingInUse(t testing.TB, b *Backend) {
	t.Helper()
	if seqs, used := b.live(); seqs != 0 || used != 0 {
		t.Errorf("%d sequences and %d blocks are in use, want none", seqs, used)
	}
}

// live returns the number of sequences and of blocks in use.
func (b *Backend) live() (sequences, blocks int) {
	return len(b.seqs), b.blocks.count() - len(b.blocks.free)
}
