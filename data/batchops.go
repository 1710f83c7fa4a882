package data

import (
	"fmt"
	"maps"
	"slices"
)

// Select returns the rows for which keep is true, in order.
func (b Batch) Select(keep func(*Row) bool) Batch {
	var rows []Row
	for i := range b.Rows {
		if keep(&b.Rows[i]) {
			rows = append(rows, b.Rows[i])
		}
	}
	return b.with(rows)
}

// Slice returns rows [from, to).
func (b Batch) Slice(from, to int) (Batch, error) {
	if from < 0 || to < from || to > len(b.Rows) {
		return Batch{}, fmt.Errorf("batch: slice [%d, %d) of %d rows", from, to, len(b.Rows))
	}
	return b.with(slices.Clone(b.Rows[from:to])), nil
}

// Concat joins batches. Their Meta must not contradict each other: a key that
// several have must have one value.
func Concat(batches ...Batch) (Batch, error) {
	var out Batch
	for i, b := range batches {
		out.Rows = append(out.Rows, b.Rows...)
		for k, v := range b.Meta {
			if old, ok := out.Meta[k]; ok && old != v {
				return Batch{}, fmt.Errorf("batch: concat: meta %q is %q in batch %d and %q before", k, v, i, old)
			}
		}
		if out.Meta == nil {
			out.Meta = maps.Clone(b.Meta)
		} else {
			maps.Copy(out.Meta, b.Meta)
		}
	}
	return out, nil
}

// Repeat returns each row n times, the copies next to each other (aabb:
// interleaved, as groups want it). Copies share nothing with one another.
func (b Batch) Repeat(n int) (Batch, error) {
	if n < 1 {
		return Batch{}, fmt.Errorf("batch: repeat %d times", n)
	}
	rows := make([]Row, 0, n*len(b.Rows))
	for i := range b.Rows {
		for range n {
			rows = append(rows, b.Rows[i].Clone())
		}
	}
	return b.with(rows), nil
}

// Reorder returns the rows in another order: row i of the result is row
// order[i]. order must name every row exactly once.
func (b Batch) Reorder(order []int) (Batch, error) {
	if len(order) != len(b.Rows) {
		return Batch{}, fmt.Errorf("batch: reorder: %d indices for %d rows", len(order), len(b.Rows))
	}
	rows := make([]Row, len(order))
	seen := make([]bool, len(order))
	for i, j := range order {
		if j < 0 || j >= len(rows) || seen[j] {
			return Batch{}, fmt.Errorf("batch: reorder: index %d at %d is out of range or there twice", j, i)
		}
		seen[j] = true
		rows[i] = b.Rows[j]
	}
	return b.with(rows), nil
}

// Split cuts the rows into consecutive batches of size rows; the last may be
// shorter.
func (b Batch) Split(size int) ([]Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("batch: split into batches of %d rows", size)
	}
	var out []Batch
	for rows := range slices.Chunk(b.Rows, size) {
		out = append(out, b.with(slices.Clone(rows)))
	}
	return out, nil
}

// Chunk cuts the rows into k batches of equal size.
func (b Batch) Chunk(k int) ([]Batch, error) {
	if k < 1 || len(b.Rows)%k != 0 {
		return nil, fmt.Errorf("batch: %d rows cannot be cut into %d equal chunks", len(b.Rows), k)
	}
	if len(b.Rows) == 0 {
		return slices.Repeat([]Batch{b.with(nil)}, k), nil
	}
	return b.Split(len(b.Rows) / k)
}
