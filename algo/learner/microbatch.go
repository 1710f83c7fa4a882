package learner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// CPUTokens limits a pass on a CPU if MaxTokens is 0: the pass ends before the row that would exceed it. Larger passes are not faster and
// take more memory.
const CPUTokens = 1024

// sharedCut limits what is computed twice. A pass ends inside a family only if the family's prefix, which the next pass computes again, is at
// most 1/sharedCut of the pass.
const sharedCut = 64

// MicroBatching bounds the rows of one pass through the model. Results do not depend
// on it, since losses are divided by the token count of the whole mini-batch (spec
// 7.3).
type MicroBatching struct {
	Rows      int // maximum number of rows in a micro-batch; 0: no limit
	MaxTokens int // maximum number of tokens in a micro-batch, in which a shared prefix counts once; 0: no limit
	// SharePrefix computes a common beginning of rows of a micro-batch once, such as the prompt of a group. It keeps rows with
	// a common beginning together. The training of adapters with dropout ignores it, since dropout differs from row to row.
	SharePrefix bool
	// Group holds the ranks among which the rows of a pass are dealt. Every rank calls the pass
	// with all rows and gets all results (ranks.go). nil: one process.
	Group *dist.Group
	// CPUs is the number of processors that the ranks of Group share, if all of them are on this machine and only
	// compute the pass. In a pass with fewer rows than ranks, the ranks with rows use all of them. 0: every rank keeps to its
	// number of threads.
	CPUs int

	cut int // number of tokens above which a pass ends early, see CPUTokens; 0: never
}

// MostTokens returns an upper bound of the tokens of a pass over rows of at most length tokens each, on a CPU or on another device. If
// prefixes are shared, a pass does not always end at CPUTokens; the bound then counts all tokens of its rows.
func (m MicroBatching) MostTokens(rows, length int, cpu bool) int {
	if m.Rows > 0 {
		rows = min(rows, m.Rows)
	}
	switch {
	case m.MaxTokens > 0:
		return min(m.MaxTokens, rows*length)
	case cpu && !m.SharePrefix:
		return min(rows*length, max(CPUTokens, length))
	}
	return rows * length
}

// Split cuts rows, in order, into micro-batches. It returns an error if a row has more
// than MaxTokens tokens.
func (m MicroBatching) Split(rows []data.Row) ([][]data.Row, error) {
	return m.split(rows, make([]int, len(rows)))
}

// split is Split of rows that share the first shared[i] tokens of row i with the row before.
func (m MicroBatching) split(rows []data.Row, shared []int) ([][]data.Row, error) {
	var out [][]data.Row
	start, tokens := 0, 0
	for i := range rows {
		n := len(rows[i].Tokens)
		if m.MaxTokens > 0 && n > m.MaxTokens {
			return nil, fmt.Errorf("row %s has %d tokens, more than max_tokens_per_micro_batch = %d", rows[i].UID, n, m.MaxTokens)
		}
		full := m.Rows > 0 && i-start == m.Rows || m.MaxTokens > 0 && tokens+n-shared[i] > m.MaxTokens
		if full || i > start && m.endsEarly(tokens, n, shared[i]) {
			out = append(out, rows[start:i])
			start, tokens = i, 0
		}
		if i > start {
			n -= shared[i]
		}
		tokens += n
	}
	if start < len(rows) {
		out = append(out, rows[start:])
	}
	return out, nil
}

// endsEarly reports whether a pass of some tokens ends before a row of n tokens, of which it has the first `shared` already.
func (m MicroBatching) endsEarly(tokens, n, shared int) bool {
	return m.cut > 0 && m.MaxTokens == 0 && tokens+n-shared > m.cut && sharedCut*shared <= tokens
}

// eachMicroBatch calls f, which computes on the thread, with each micro-batch of this rank's rows, in order. Fields that f
// writes to the rows of a micro-batch are written to rows. In lockstep all ranks call f equally often: a rank with
// fewer micro-batches calls it with idle ones.
func eachMicroBatch(ctx context.Context, thread *torch.Thread, rows []data.Row, micro MicroBatching, lockstep bool, f func(p *packed) error) error {
	if thread.Device().IsCPU() {
		micro.cut = CPUTokens
	}
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
			p, err := pack(own.batches[i], index, micro.SharePrefix)
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
	p, err := pack(slices.Clone(rows[best:best+1]), []int{best}, false)
	if err == nil {
		p.idle = true
	}
	return p, err
}

// rankRows holds the rows that are dealt to one rank.
type rankRows struct {
	index   []int        // indices of the rows: families by their first row, the rows of a family in increasing order
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

// dealTo distributes whole rows over the ranks by their number of tokens: the largest family first,
// each to the rank with the fewest tokens so far. Of equal families the first comes first, of equal
// ranks the first gets it. Every rank computes the same result. Families are cut into 2, 4, …
// parts if the largest share of a rank is then smaller by a tenth.
func (m MicroBatching) dealTo(ranks int, rows []data.Row) ([]rankRows, error) {
	all := families(rows, m.SharePrefix)
	most := 0 // number of rows of the largest family
	for _, f := range all {
		most = max(most, len(f.Seqs))
	}
	hands, least := dealFamilies(ranks, rows, all)
	for parts := 2; ranks > 1 && parts < 2*most; parts *= 2 {
		if more, load := dealFamilies(ranks, rows, cut(all, parts)); 10*load < 9*least {
			hands, least = more, load
		}
	}
	byRank := make([]rankRows, ranks)
	for r, hand := range hands {
		slices.SortFunc(hand, func(a, b model.Family) int { return cmp.Compare(a.Seqs[0], b.Seqs[0]) })
		h := &byRank[r]
		var own []data.Row
		var shared []int
		for _, f := range hand {
			for i, at := range f.Seqs {
				h.index, own, shared = append(h.index, at), append(own, rows[at]), append(shared, min(i, 1)*f.Prefix)
			}
		}
		var err error
		if h.batches, err = m.split(own, shared); err != nil {
			return nil, err
		}
	}
	return byRank, nil
}

// dealFamilies distributes whole families. load is the largest number of tokens of a rank.
func dealFamilies(ranks int, rows []data.Row, families []model.Family) (hands [][]model.Family, load int) {
	tokens := func(f model.Family) int {
		n := f.Prefix
		for _, i := range f.Seqs {
			n += len(rows[i].Tokens) - f.Prefix
		}
		return n
	}
	if ranks > 1 {
		families = slices.SortedStableFunc(slices.Values(families), func(a, b model.Family) int { return cmp.Compare(tokens(b), tokens(a)) })
	}
	hands = make([][]model.Family, ranks)
	loads := make([]int, ranks)
	for _, f := range families {
		r := slices.Index(loads, slices.Min(loads))
		loads[r] += tokens(f)
		hands[r] = append(hands[r], f)
	}
	return hands, slices.Max(loads)
}

// cut divides every family into parts of sizes that differ by at most one. A part is a family too.
func cut(families []model.Family, parts int) []model.Family {
	var list []model.Family
	for _, f := range families {
		n := min(parts, len(f.Seqs))
		for i := range n {
			list = append(list, model.Family{Seqs: f.Seqs[len(f.Seqs)*i/n : len(f.Seqs)*(i+1)/n], Prefix: f.Prefix})
		}
	}
	return list
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
