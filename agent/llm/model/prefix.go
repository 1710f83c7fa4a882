package model

import (
	"cmp"
	"slices"

	"github.com/openmanus/openmanus/torch"
)

// MinPrefix is the smallest number of tokens that sequences of a family share. Shorter prefixes are
// computed for each sequence.
const MinPrefix = 32

// Family is a set of sequences that begin with the same Prefix tokens. A sequence that shares nothing is
// a family of its own, with Prefix 0.
type Family struct {
	Seqs   []int // indices of the sequences, in increasing order
	Prefix int
}

// Families divides sequences into families so that a pack of them has the fewest tokens. They are
// ordered by their first sequence.
func Families(seqs [][]int32) []Family {
	order := make([]int, len(seqs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(seqs[a], seqs[b]) })
	// saved[n] is the largest number of tokens that families of the first n sequences of the order save, and from[n]
	// the first sequence of the last of these families.
	saved, from := make([]int, len(seqs)+1), make([]int, len(seqs)+1)
	prefix := make([]int, len(seqs)+1)
	for n := 1; n <= len(seqs); n++ {
		saved[n], from[n] = saved[n-1], n-1
		least := len(seqs[order[n-1]])
		for i := n - 2; i >= 0; i-- {
			if least = min(least, commonPrefix(seqs[order[i]], seqs[order[i+1]])); least < MinPrefix {
				break
			}
			if s := saved[i] + (n-1-i)*least; s > saved[n] {
				saved[n], from[n], prefix[n] = s, i, least
			}
		}
	}
	var list []Family
	for n := len(seqs); n > 0; n = from[n] {
		f := Family{Seqs: slices.Clone(order[from[n]:n]), Prefix: prefix[n]}
		slices.Sort(f.Seqs)
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Family) int { return cmp.Compare(a.Seqs[0], b.Seqs[0]) })
	return list
}

// commonPrefix returns the number of equal tokens at the beginnings of a and b.
func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Packed is a layout of sequences for ForwardPacked: segments one after another, in which the prefix of a
// family has a segment of its own, the parent of the segments with the rests of its sequences.
type Packed struct {
	IDs, Positions []int32
	Offsets        []int // segment i has the tokens Offsets[i] … Offsets[i+1]-1
	Parents        []int // the segment that each segment continues, or -1; nil: all -1

	at []span // the places of each sequence
}

// span says where a sequence is: the first `prefix` tokens from parent on, the others from rest on.
type span struct{ parent, prefix, rest int }

// PackFamilies packs sequences, with the prefix of each family once.
func PackFamilies(seqs [][]int32, families []Family) *Packed {
	p := &Packed{Offsets: []int{0}, at: make([]span, len(seqs))}
	segment := func(ids []int32, position, parent int) (begin int) {
		begin = len(p.IDs)
		for i := range ids {
			p.Positions = append(p.Positions, int32(position+i))
		}
		p.IDs = append(p.IDs, ids...)
		p.Offsets = append(p.Offsets, len(p.IDs))
		p.Parents = append(p.Parents, parent)
		return begin
	}
	shares := false
	for _, f := range families {
		parent, begin := -1, 0
		if f.Prefix > 0 {
			shares, parent = true, len(p.Parents)
			begin = segment(seqs[f.Seqs[0]][:f.Prefix], 0, -1)
		}
		for _, i := range f.Seqs {
			p.at[i] = span{parent: begin, prefix: f.Prefix, rest: segment(seqs[i][f.Prefix:], f.Prefix, parent)}
		}
	}
	if !shares {
		p.Parents = nil
	}
	return p
}

// At returns the packed position of a token of a sequence. Sequences of a family have the same positions
// for the tokens of their prefix.
func (p *Packed) At(seq, token int) int {
	at := p.at[seq]
	if token < at.prefix {
		return at.parent + token
	}
	return at.rest + token - at.prefix
}

// ForwardPacked is Forward of packed sequences that may share prefixes. The gradient of a prefix is the sum over the
// sequences that share it. Dropout must be off if there are prefixes.
func (m *Model) ForwardPacked(s *torch.Scope, p *Packed) torch.Tensor {
	return m.forward(s, p.IDs, p.Positions, p.Offsets, p.Parents)
}
