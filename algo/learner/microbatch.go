package learner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// MicroBatching bounds the rows of one pass through the model. Results do not depend
// on it, since losses are divided by the token count of the whole mini-batch (spec
// 7.3).
type MicroBatching struct {
	Rows      int // maximum number of rows in a micro-batch; 0: no limit
	MaxTokens int // maximum number of tokens in a micro-batch; 0: no limit
	// Group holds the ranks among which the rows of a pass are dealt. Every rank calls the pass
	// with all rows and gets all results (ranks.go). nil: one process.
	Group *dist.Group
	// CPUs is the number of processors that the ranks of Group share, if all of them are on this machine and only
	// compute the pass. In a pass with fewer rows than ranks, the ranks with rows use all of them. 0: every rank keeps to its
	// number of threads.
	CPUs int
}

// Split cuts rows, in order, into micro-batches. It returns an error if a row has more
// than MaxTokens tokens.
func (m MicroBatching) Split(rows []data.Row) ([][]data.Row, error) {
	var out [][]data.Row
	start, tokens := 0, 0
	for i := range rows {
		n := len(rows[i].Tokens)
		if m.MaxTokens > 0 && n > m.MaxTokens {
			return nil, fmt.Errorf("row %s has %d tokens, more than max_tokens_per_micro_batch = %d", rows[i].UID, n, m.MaxTokens)
		}
		full := m.Rows > 0 && i-start == m.Rows || m.MaxTokens > 0 && tokens+n > m.MaxTokens
		if full {
			out = append(out, rows[start:i])
			start, tokens = i, 0
		}
		tokens += n
	}
	if start < len(rows) {
		out = append(out, rows[start:])
	}
	return out, nil
}

// eachMicroBatch calls f, which computes on the thread, with each micro-batch of this rank's rows, in order. Fields that f
// writes to the rows of a micro-batch are written to rows. In lockstep all ranks call f equally often: a rank with
// fewer micro-batches calls it with idle ones.
func eachMicroBatch(ctx context.Context, thread *torch.Thread, rows []data.Row, micro MicroBatching, lockstep bool, f func(p *packed) error) error {
	byRank, err := micro.deal(rows)
	if err != nil {
		return err
	}
	own, most := byRank[micro.rank()], 0
	for _, h := range byRank {
		most = max(most, len(h.batches))
	}
	if !lockstep {
		thread.SetNumThreads(micro.threads(byRank))
		defer thread.SetNumThreads(0)
	}
	first := 0 // index in own.rows of the first row of the micro-batch
	for i := range most {
		if i < len(own.batches) {
			index := own.index[first : first+len(own.batches[i])]
			p, err := pack(own.batches[i], index)
			if err == nil {
				err = f(p)
			}
			if err != nil {
				return err
			}
			for j, at := range index {
				rows[at] = p.rows[j]
			}
			first += len(index)
		} else if lockstep {
			p, err := idle(rows)
			if err == nil {
				err = f(p)
			}
			if err != nil {
				return err
			}
		}
		if each, _ := ctx.Value(rowCounter{}).(func(int)); each != nil {
			each(rowsOf(byRank, i))
		}
	}
	return nil
}

// idle returns a micro-batch of the cheapest row, for a rank without a row of its own.
func idle(rows []data.Row) (*packed, error) {
	best := 0
	for i := range rows {
		a, b := LossTokens(rows[i:i+1]) > 0, LossTokens(rows[best:best+1]) > 0
		if a && !b || a == b && len(rows[i].Tokens) < len(rows[best].Tokens) {
			best = i
		}
	}
	p, err := pack(slices.Clone(rows[best:best+1]), []int{best})
	if err == nil {
		p.idle = true
	}
	return p, err
}

// rankRows holds the rows that are dealt to one rank.
type rankRows struct {
	index   []int        // indices of the rows, in increasing order
	batches [][]data.Row // the micro-batches
}

// threads returns the number of CPU threads of this rank in a pass in which idle ranks do not compute. 0: as outside passes.
func (m MicroBatching) threads(byRank []rankRows) int {
	busy := 0
	for _, h := range byRank {
		if len(h.index) > 0 {
			busy++
		}
	}
	if m.CPUs == 0 || busy == 0 || busy == len(byRank) {
		return 0
	}
	return max(torch.NumThreads(), m.CPUs/busy)
}

// rowsOf returns the number of rows in the i-th micro-batches of all ranks.
func rowsOf(byRank []rankRows, i int) int {
	n := 0
	for _, h := range byRank {
		if i < len(h.batches) {
			n += len(h.batches[i])
		}
	}
	return n
}

// deal distributes rows over the ranks of the group.
func (m MicroBatching) deal(rows []data.Row) ([]rankRows, error) { return m.dealTo(m.ranks(), rows) }

// dealTo distributes whole rows over the ranks by their number of tokens: the longest row first,
// each to the rank with the fewest tokens so far. Of equal rows the first comes first, of equal
// ranks the first gets it. Every rank computes the same result.
func (m MicroBatching) dealTo(ranks int, rows []data.Row) ([]rankRows, error) {
	byRank := make([]rankRows, ranks)
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	if len(byRank) > 1 {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(rows[b].Tokens), len(rows[a].Tokens)) })
	}
	loads := make([]int, len(byRank))
	for _, i := range order {
		least := 0
		for r, n := range loads {
			if n < loads[least] {
				least = r
			}
		}
		loads[least] += len(rows[i].Tokens)
		byRank[least].index = append(byRank[least].index, i)
	}
	for r := range byRank {
		h := &byRank[r]
		slices.Sort(h.index)
		own := make([]data.Row, len(h.index))
		for i, at := range h.index {
			own[i] = rows[at]
		}
		var err error
		if h.batches, err = m.Split(own); err != nil {
			return nil, err
		}
	}
	return byRank, nil
}

// LossTokens counts the tokens in the loss: the tokens with mask 1, except the first of a
// row, which has no prediction.
func LossTokens(rows []data.Row) int {
	n := 0
	for i := range rows {
		for _, m := range rows[i].Mask[min(1, len(rows[i].Mask)):] {
			n += int(m)
		}
	}
	return n
}

type rowCounter struct{}

// CountRows returns a context for passes of a model over rows. A pass calls
// each(n) after a micro-batch, with n the rows of the micro-batches that the ranks compute at the
// same time. If the function each is nil, it is not called.
func CountRows(ctx context.Context, each func(rows int)) context.Context {
	return context.WithValue(ctx, rowCounter{}, each)
}
