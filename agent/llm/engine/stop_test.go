package engine

import (
	"context"
	"fmt"
	"testing"
	"unicode/utf8"
)

// newByteDecoder returns a decoder of a byte-level vocabulary: id b is byte b, and ids
// from 256 are words. It keeps the bytes of an incomplete rune for the next call.
func newByteDecoder() func(int32) string {
	words := []string{"<act>", "</action> tail", " Hello"}
	var pending []byte
	return func(id int32) string {
		if id < 256 {
			pending = append(pending, byte(id))
		} else {
			pending = append(pending, words[id-256]...)
		}
		if !utf8.Valid(pending) {
			return ""
		}
		text := string(pending)
		pending = nil
		return text
	}
}

func ids(text string) []int32 {
	var out []int32
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out
}

func TestStopConditions(t *testing.T) {
	tests := []struct {
		name   string
		tokens []int32
		params Params
		limit  int
		want   int
		stop   StopReason
	}{
		{"stop string over several ids", ids("go</act>more"), Params{StopStrings: []string{"</act>"}}, 0, 8, StopString},
		{"stop string inside an id", []int32{'a', 257, 'b'}, Params{StopStrings: []string{"</action>"}}, 0, 2, StopString},
		{"the first of two", ids("ab"), Params{StopStrings: []string{"b", "a"}}, 0, 1, StopString},
		{"stop string in characters", ids("日本語"), Params{StopStrings: []string{"本"}}, 0, 6, StopString},
		{"false start", ids("<</act>"), Params{StopStrings: []string{"</act>"}}, 0, 7, StopString},
		{"stop token", []int32{'a', 'b', 9, 'c'}, Params{StopTokens: []int32{9, 11}}, 0, 3, StopEOS},
		{"stop token wins over length", []int32{'a', 9}, Params{StopTokens: []int32{9}, MaxNew: 2}, 0, 2, StopEOS},
		// Spec 12.3, eos mask: the loss includes the tokens up to and including the first end token.
		{"an end among tokens", []int32{0, 0, 2, 42, 3, 5, 1, 0, 0}, Params{StopTokens: []int32{1}}, 0, 7, StopEOS},
		{"an end at once", []int32{1, 1, 7}, Params{StopTokens: []int32{1}}, 0, 1, StopEOS},
		{"length", ids("abcdef"), Params{MaxNew: 4}, 0, 4, StopLength},
		{"context", ids("abcdef"), Params{MaxNew: 9}, 6, 5, StopContext},
		{"no room at all", nil, Params{}, 1, 0, StopContext},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := New(&scripted{fakeBackend: newFake(256, 16), tokens: tt.tokens}, Options{NewDecoder: newByteDecoder})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Shutdown()
			session := mustOpen(t, s, SessionOptions{MaxContext: tt.limit})
			p := tt.params
			p.Greedy = true
			if p.MaxNew == 0 {
				p.MaxNew = 50
			}
			r, err := s.Generate(t.Context(), session, []int32{0}, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.IDs) != tt.want || len(r.LogProbs) != tt.want || r.Stop != tt.stop {
				t.Errorf("got %d ids %v, stop %q; want %d, %q", len(r.IDs), r.IDs, r.Stop, tt.want, tt.stop)
			}
		})
	}
}

// scripted is a backend that samples the given tokens in order.
type scripted struct {
	*fakeBackend
	tokens []int32
}

func (b *scripted) Step(_ context.Context, batch []Work) ([]Sampled, error) {
	if len(b.tokens) == 0 {
		return nil, fmt.Errorf("the script has no more tokens")
	}
	if !batch[0].Greedy || batch[0].Temperature != 1 || batch[0].TopP != 1 {
		return nil, fmt.Errorf("unexpected parameters %+v", batch[0])
	}
	t := b.tokens[0]
	b.tokens = b.tokens[1:]
	return []Sampled{{Token: t}}, nil
}
