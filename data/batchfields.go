package data

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// What DataProto does with named tensors is done here with the per-token
// fields of the rows: Rewards, Advantages and their like, under the names that
// a saved batch gives them (rewards, old_log_probs). Everything else a row
// holds is its identity and goes where it goes.

// key is the field's name in files and in arguments: old_log_probs.
func (f floatField) key() string {
	var b strings.Builder
	for i, r := range f.name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// field finds a per-token field of a row.
func (r *Row) field(key string) (*[]float32, error) {
	var known []string
	for _, f := range r.floats() {
		if f.key() == key {
			return f.values, nil
		}
		known = append(known, f.key())
	}
	return nil, fmt.Errorf("batch: rows have no field %q; there are %s", key, strings.Join(known, ", "))
}

// Without returns the batch with the named per-token fields taken out of every
// row (DataProto's pop, and select by the fields left out). A field that a row
// does not have is an error, as popping a missing key is.
func (b Batch) Without(fields ...string) (Batch, error) {
	rows := slices.Clone(b.Rows)
	for _, key := range fields {
		for i := range rows {
			values, err := rows[i].field(key)
			if err != nil {
				return Batch{}, err
			}
			if *values == nil {
				return Batch{}, fmt.Errorf("batch: row %d (%s) has no %s to take out", i, rows[i].UID, key)
			}
			*values = nil
		}
	}
	return b.with(rows), nil
}

// Union returns the batch with the fields of other added: both are the same
// rows in the same order, with different fields computed, the baseline among
// them. A field, or a Meta key, that both have must be equal in both.
func (b Batch) Union(other Batch) (Batch, error) {
	if len(b.Rows) != len(other.Rows) {
		return Batch{}, fmt.Errorf("batch: union of %d and %d rows", len(b.Rows), len(other.Rows))
	}
	out := b.with(slices.Clone(b.Rows))
	for k, v := range other.Meta {
		if old, ok := out.Meta[k]; ok && old != v {
			return Batch{}, fmt.Errorf("batch: union: meta %q is %q in one and %q in the other", k, old, v)
		}
		if out.Meta == nil {
			out.Meta = map[string]string{}
		}
		out.Meta[k] = v
	}
	for i := range out.Rows {
		r, o := &out.Rows[i], &other.Rows[i]
		if !r.sameEpisode(o) {
			return Batch{}, fmt.Errorf("batch: union: row %d is sample %d of %s in one and sample %d of %s in the other, or their tokens differ",
				i, r.Sample, r.UID, o.Sample, o.UID)
		}
		switch {
		case o.Baseline == nil:
		case r.Baseline == nil:
			baseline := *o.Baseline
			r.Baseline = &baseline
		case *r.Baseline != *o.Baseline:
			return Batch{}, fmt.Errorf("batch: union: row %d (%s): its baseline is %g in one and %g in the other", i, r.UID, *r.Baseline, *o.Baseline)
		}
		mine := r.floats()
		for j, theirs := range o.floats() {
			switch {
			case *theirs.values == nil:
			case *mine[j].values == nil:
				*mine[j].values = *theirs.values
			case !slices.Equal(*mine[j].values, *theirs.values):
				return Batch{}, fmt.Errorf("batch: union: row %d (%s): %s differs", i, r.UID, theirs.key())
			}
		}
	}
	return out, nil
}

// sameEpisode reports whether two rows are one episode, or one context of it,
// whatever was computed about it.
func (r *Row) sameEpisode(o *Row) bool {
	return r.UID == o.UID && r.TaskID == o.TaskID && r.Env == o.Env && r.Index == o.Index && r.Sample == o.Sample && r.Seed == o.Seed &&
		r.Context == o.Context && r.Contexts == o.Contexts && r.WeightVersion == o.WeightVersion && r.Score == o.Score && r.EnvReward == o.EnvReward && r.Outcome == o.Outcome && r.FirstObservation == o.FirstObservation &&
		slices.Equal(r.Tokens, o.Tokens) && slices.Equal(r.Mask, o.Mask) &&
		slices.EqualFunc(r.Turns, o.Turns, func(a, b Turn) bool { return reflect.DeepEqual(a, b) })
}

// Pick returns the rows with the given indices, in their order. Unlike Reorder
// it may leave rows out; none comes twice, since copies would share memory.
func (b Batch) Pick(indices []int) (Batch, error) {
	rows := make([]Row, 0, len(indices))
	seen := make([]bool, len(b.Rows))
	for at, i := range indices {
		if i < 0 || i >= len(b.Rows) || seen[i] {
			return Batch{}, fmt.Errorf("batch: pick: index %d at %d is out of range of %d rows or there twice", i, at, len(b.Rows))
		}
		seen[i] = true
		rows = append(rows, b.Rows[i])
	}
	return b.with(rows), nil
}

// Tile returns the whole batch n times over (abab; Repeat gives aabb). Copies
// share nothing with one another.
func (b Batch) Tile(n int) (Batch, error) {
	if n < 1 {
		return Batch{}, fmt.Errorf("batch: tile %d times", n)
	}
	rows := make([]Row, 0, n*len(b.Rows))
	for range n {
		for i := range b.Rows {
			rows = append(rows, b.Rows[i].Clone())
		}
	}
	return b.with(rows), nil
}

// Spread cuts the rows into k consecutive batches whose sizes differ by one at
// most. It stands for padding to a multiple, chunking and taking the padding
// out again: here no worker needs equal shares, so no row is played twice.
func (b Batch) Spread(k int) ([]Batch, error) {
	if k < 1 {
		return nil, fmt.Errorf("batch: spread over %d batches", k)
	}
	out := make([]Batch, k)
	n := len(b.Rows)
	for i := range out {
		out[i] = b.with(slices.Clone(b.Rows[i*n/k : (i+1)*n/k]))
	}
	return out, nil
}

// MiniBatches goes over the rows epochs times in batches of size rows, in an
// order that seed and the epoch's number decide (make_iterator). size must
// divide the number of rows: the last of them would weigh more than the others.
func (b Batch) MiniBatches(size, epochs int, seed uint64) (iter.Seq[Batch], error) {
	if size < 1 || epochs < 1 || len(b.Rows) == 0 || len(b.Rows)%size != 0 {
		return nil, fmt.Errorf("batch: %d epochs over %d rows in mini-batches of %d: a size that divides the rows, and an epoch, are needed", epochs, len(b.Rows), size)
	}
	return func(yield func(Batch) bool) {
		order, err := NewOrder(len(b.Rows), true, seed)
		if err != nil { // there is a row
			panic(err)
		}
		for range epochs * (len(b.Rows) / size) {
			mini := make([]Row, 0, size)
			for _, i := range order.Next(size) {
				mini = append(mini, b.Rows[i])
			}
			if !yield(b.with(mini)) {
				return
			}
		}
	}, nil
}

// Bytes is how much memory the per-token values of all rows take.
func (b Batch) Bytes() int64 {
	var n int64
	for i := range b.Rows {
		r := &b.Rows[i]
		n += int64(4*len(r.Tokens) + len(r.Mask))
		for _, f := range r.floats() {
			n += int64(4 * len(*f.values))
		}
	}
	return n
}

// errNoRows is returned where an empty batch has no meaning.
var errNoRows = errors.New("it has no rows")
