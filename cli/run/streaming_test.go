package run

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// TestStreamed checks that the pieces of a reply hold whole characters, that stop tokens have no text, and that an error
// keeps the sampled ids.
func TestStreamed(t *testing.T) {
	tok, err := tokenizer.TrainBPE(nil, 257, []string{"<|end|>"})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.TokenToID("<|end|>")
	text := tok.Encode("né🙂", tokenizer.Options{}) // one id per byte
	if len(text) != 7 {
		t.Fatalf("%d ids, want one per byte", len(text))
	}
	fault := errors.New("cancelled")
	for name, tt := range map[string]struct {
		ids    []int32
		err    error
		pieces []string
	}{
		"complete":               {append(text[:7:7], end), nil, []string{"n", "é", "🙂"}},
		"cut inside a character": {text[:5], nil, []string{"n", "é", "\ufffd"}},
		"stopped":                {text[:3], fault, []string{"n", "é"}},
		"nothing":                {nil, fault, nil},
	} {
		var pieces []string
		reply, sampled, err := streamed(func(each func(engine.Token)) (engine.Reply, error) {
			for _, id := range tt.ids {
				each(engine.Token{ID: id})
			}
			return engine.Reply{IDs: tt.ids}, tt.err
		}, tok.Stream(true).Next, func(ids []int32) string { return tok.Decode(ids, true) }, []int32{end}, 8, func(s string) { pieces = append(pieces, s) })
		if !errors.Is(err, tt.err) || !cmp.Equal(sampled, tt.ids) || !cmp.Equal(reply.IDs, tt.ids) {
			t.Errorf("%s: ids %v and %v, error %v", name, sampled, reply.IDs, err)
		}
		if d := cmp.Diff(tt.pieces, pieces); d != "" {
			t.Errorf("%s: pieces (-want +got)\n%s", name, d)
		}
	}
}
