package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// TokenSet is a compact set of token ids: varints of the differences between ascending
// ids, where the first varint is the first id plus 1. In JSON it is a base64 string.
// Nil stands for the whole vocabulary.
type TokenSet []byte

// NewTokenSet returns the set of ascending ids. An empty list stands for the
// whole vocabulary.
func NewTokenSet(ids []int32) TokenSet {
	var s TokenSet
	last := int64(-1)
	for _, id := range ids {
		s = binary.AppendUvarint(s, uint64(int64(id)-last))
		last = int64(id)
	}
	return s
}

// IDs returns the ids in ascending order, nil for the whole vocabulary.
func (s TokenSet) IDs() ([]int32, error) {
	var ids []int32
	last := int64(-1)
	for len(s) > 0 {
		step, n := binary.Uvarint(s)
		if n <= 0 || step == 0 || step > 1<<31 || last+int64(step) > math.MaxInt32 {
			return nil, errors.New("malformed set of token ids")
		}
		last += int64(step)
		ids, s = append(ids, int32(last)), s[n:]
	}
	return ids, nil
}

// checkKept verifies that a turn's kept sets belong to its tokens.
func checkKept(t *Turn, tokens []int32) error {
	if t.Kept == nil {
		return nil
	}
	if len(t.Kept) != t.End-t.Start {
		return fmt.Errorf("%d sets of kept tokens for %d sampled tokens", len(t.Kept), t.End-t.Start)
	}
	for i, set := range t.Kept {
		ids, err := set.IDs()
		if err != nil {
			return fmt.Errorf("the kept tokens of token %d: %w", t.Start+i, err)
		}
		if _, ok := slices.BinarySearch(ids, tokens[t.Start+i]); ids != nil && !ok {
			return fmt.Errorf("token %d was sampled, but is not among its kept tokens", t.Start+i)
		}
	}
	return nil
}
