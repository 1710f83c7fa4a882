package data

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestTokenSet(t *testing.T) {
	for _, ids := range [][]int32{nil, {0}, {1}, {0, 1, 2, 3}, {5, 127, 128, 129, 151935}, {1<<31 - 1}} {
		text, err := json.Marshal([]TokenSet{NewTokenSet(ids)})
		if err != nil {
			t.Fatal(err)
		}
		var sets []TokenSet
		if err := json.Unmarshal(text, &sets); err != nil {
			t.Fatal(err)
		}
		if got, err := sets[0].IDs(); err != nil || !slices.Equal(got, ids) {
			t.Errorf("%v: encoded as %s, decoded as %v (%v)", ids, text, got, err)
		}
	}
	for _, bad := range []TokenSet{{0}, {1, 0}, {0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, NewTokenSet([]int32{1<<31 - 1, 1<<31 - 1})} {
		if ids, err := bad.IDs(); err == nil {
			t.Errorf("%v: decoded as %v, want an error", []byte(bad), ids)
		}
	}
}

// TestKeptTokensAreChecked checks that a turn's kept sets are an error if they do not fit the turn's tokens.
func TestKeptTokensAreChecked(t *testing.T) {
	row := func(kept ...TokenSet) *Row {
		return &Row{Tokens: []int32{4, 7, 9}, Mask: []uint8{0, 1, 1}, Turns: []Turn{{Start: 1, End: 3, Kept: kept}}}
	}
	of := func(ids ...int32) TokenSet { return NewTokenSet(ids) }
	for _, good := range []*Row{row(), row(of(7, 8), of(1, 9)), row(nil, of(9))} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	for want, bad := range map[string]*Row{
		"1 sets of kept tokens for 2":     row(of(7)),
		"token 2 was sampled, but is not": row(of(7), of(8)),
		"token 1: malformed set":          row(TokenSet{0}, of(9)),
	} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
