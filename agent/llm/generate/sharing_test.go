package generate

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// TestSharedPrefix checks that a sequence samples the same tokens whether or not
// it begins with a prefix of another sequence, even after the other sequence is
// truncated, continued or dropped.
func TestSharedPrefix(t *testing.T) {
	m := openModel(t, torch.Float32)
	for name, tt := range map[string]struct{ shared, cut int }{
		"whole blocks":    {32, 16},
		"part of a block": {40, 19},
		"cut in a copy":   {40, 38},
	} {
		t.Run(name, func(t *testing.T) { sharedPrefix(t, m, tt.shared, tt.cut) })
	}
}

// sharedPrefix shares the first `shared` tokens, and later truncates the source to `cut` tokens.
func sharedPrefix(t *testing.T, m *model.Model, shared, cut int) {
	const block = 16
	b := newBackend(t, m, Options{KVTokens: 1024, BlockSize: block})
	prompt := ids(41, 2)

	// The expected samples: the prompt and 30 given tokens, without sharing.
	follow := ids(30, 5)
	var want []engine.Sampled
	want = append(want, step(t, b, sampling(1, prompt, 0, 0))[0])
	for i, id := range follow {
		want = append(want, step(t, b, sampling(1, []int32{id}, len(prompt)+i, 0))[0])
	}
	b.Drop(1)

	step(t, b, sampling(2, prompt, 0, 1)) // the source of the shared blocks
	begin := sampling(3, prompt[shared:], shared, 0)
	begin.From = 2
	_, before := b.live()
	same := func(i int, got engine.Sampled) {
		t.Helper()
		if d := math.Abs(float64(got.LogProb - want[i].LogProb)); got.Token != want[i].Token || !(d <= tolerance) {
			t.Errorf("token %d: got %+v, want %+v as without sharing", i, got, want[i])
		}
	}
	same(0, step(t, b, begin)[0])
	if _, after := b.live(); after-before != 1 { // one block for the tokens that are not shared
		t.Errorf("the sequence with shared blocks uses %d new blocks, want 1", after-before)
	}
	for i, id := range follow {
		at := len(prompt) + i
		batch := []engine.Work{sampling(3, []int32{id}, at, 0)}
		switch i {
		case 3: // the source continues
			batch = append(batch, sampling(2, ids(20, 9), len(prompt), 1))
		case 8: // the source is truncated within the shared part and continues differently
			batch = append(batch, sampling(2, ids(20, 11), cut, 1))
		case 12: // the source is dropped and its memory reused
			b.Drop(2)
			batch = append(batch, sampling(4, ids(120, 12), 0, 2))
		case 20: // a third sequence shares blocks of the second
			w := sampling(5, prompt[shared:], shared, 0)
			w.From = 3
			batch = append(batch, w)
		}
		out := step(t, b, batch...)
		same(i+1, out[0])
		if i == 20 {
			same(0, out[1])
		}
	}
	for seq := range engine.SeqID(6) {
		b.Drop(seq)
	}
	checkNothingInUse(t, b)
}

// TestCopyOfATruncatedSource truncates a sequence within a block that another one uses too, and copies a part of that block in the
// same step.
func TestCopyOfATruncatedSource(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 1024, BlockSize: 16})
	prompt, own := ids(48, 2), ids(5, 7)
	want := step(t, b, sampling(1, append(slices.Clone(prompt[:24]), own...), 0, 0))[0]
	b.Drop(1)

	step(t, b, sampling(2, prompt, 0, 1))
	other := sampling(3, prompt[47:], 47, 2) // shares the second block
	other.From = 2
	step(t, b, other)
	copied := sampling(4, own, 24, 0)
	copied.From = 2
	got := step(t, b, sampling(2, own, 28, 1), copied)[1]
	if d := math.Abs(float64(got.LogProb - want.LogProb)); got.Token != want.Token || !(d <= tolerance) {
		t.Errorf("got %+v, want %+v as without sharing", got, want)
	}
}

func TestInvalidSharing(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 256, BlockSize: 16})
	step(t, b, sampling(1, ids(40, 0), 0, 0), sampling(2, ids(40, 1), 0, 0))
	from := func(seq, other engine.SeqID, pos int) engine.Work {
		w := sampling(seq, ids(3, 0), pos, 0)
		w.From = other
		return w
	}
	for name, tt := range map[string]struct {
		work engine.Work
		want string
	}{
		"a longer prefix than cached": {from(3, 1, 48), "tokens for position 48, but 40 are cached"},
		"of an unknown sequence":      {from(3, 9, 16), "tokens for position 16, but 0 are cached"},
		"into a known sequence":       {from(2, 1, 16), "prefix of sequence 1"},
		"an unknown sequence at 16":   {sampling(3, ids(3, 0), 16, 0), "tokens for position 16, but 0 are cached"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := b.Step(context.Background(), []engine.Work{tt.work}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v does not contain %q", err, tt.want)
			}
		})
	}
}
