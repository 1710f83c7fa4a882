package learner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// packed is a micro-batch laid out for one forward pass: whole rows one after another
// without padding, with the prefix of a family of rows once, and the tokens in the loss.
type packed struct {
	rows       []data.Row
	index      []int // index of each row among the rows of the pass
	idle       bool  // this rank only takes part in the collectives; its results are dropped
	layout     *model.Packed
	at         []int64   // [M] packed position before each token in the loss, which predicts it
	targets    []int64   // [M] id of each token in the loss
	row, token []int     // [M] row and position of each token in the loss: rows[row[i]].Tokens[token[i]]
	lens       []int     // number of tokens in the loss of each row
	reads      []read    // values that fetch copies to the host
	kept       [][]int32 // [M] ids that top-k and top-p kept when the token was sampled; nil: the whole vocabulary
}

// pack lays rows out, which have the given indices among the rows of the pass. With share, rows share their
// prefixes. A token with mask 1 is in the loss, except the first of a row, which has no prediction.
func pack(rows []data.Row, index []int, share bool) (*packed, error) {
	p := &packed{rows: rows, index: index, layout: model.PackFamilies(tokensOf(rows), families(rows, share))}
	for r := range rows {
		before := len(p.at)
		for t := 1; t < len(rows[r].Tokens); t++ {
			if rows[r].Mask[t] == 1 {
				p.at = append(p.at, int64(p.layout.At(r, t-1)))
				p.targets = append(p.targets, int64(rows[r].Tokens[t]))
				p.row = append(p.row, r)
				p.token = append(p.token, t)
			}
		}
		p.lens = append(p.lens, len(p.at)-before)
	}
	return p, p.readKept()
}

// families divides rows into families that share a prefix. Without share, every row is a family of its own.
func families(rows []data.Row, share bool) []model.Family {
	if share {
		return model.Families(tokensOf(rows))
	}
	list := make([]model.Family, len(rows))
	for i := range rows {
		list[i].Seqs = []int{i}
	}
	return list
}

func tokensOf(rows []data.Row) [][]int32 {
	seqs := make([][]int32, len(rows))
	for i := range rows {
		seqs[i] = rows[i].Tokens
	}
	return seqs
}

// readKept fills p.kept from the rows' turns.
func (p *packed) readKept() error {
	for i, r := range p.row {
		set := keptAt(&p.rows[r], p.token[i])
		if set == nil {
			continue
		}
		ids, err := set.IDs()
		if err != nil {
			return fmt.Errorf("row %s: the kept tokens of token %d: %w", p.rows[r].UID, p.token[i], err)
		}
		if p.kept == nil {
			p.kept = make([][]int32, len(p.row))
		}
		p.kept[i] = ids
	}
	return nil
}

// keptAt returns the kept set of a sampled token of a row; nil: the whole vocabulary.
func keptAt(r *data.Row, token int) data.TokenSet {
	i, _ := slices.BinarySearchFunc(r.Turns, token, func(t data.Turn, token int) int { return cmp.Compare(t.End, token+1) })
	if i == len(r.Turns) || token < r.Turns[i].Start || r.Turns[i].Kept == nil {
		return nil
	}
	return r.Turns[i].Kept[token-r.Turns[i].Start]
}

// logProbs returns, for the states hidden [M,D], log p [M] of the tokens in the loss
// at the temperature and, with entropy, the entropies [M]. Both are of the renormalised
// distribution over the kept tokens, as in sampling (DeepSeek-V3.2,
// arXiv:2512.02556, section 3.1, keep sampling mask).
func (p *packed) logProbs(m *model.Model, hidden torch.Tensor, temperature float64, entropy bool) (logp, ent torch.Tensor) {
	return m.TokenLogProbs(hidden, p.targets, p.kept, temperature, entropy)
}

// hidden runs the model and returns the states [M,D] before the tokens in the loss.
func (p *packed) hidden(s *torch.Scope, m *model.Model) torch.Tensor {
	return m.ForwardPacked(s, p.layout).IndexSelect(0, s.Int64s(p.at, len(p.at)))
}

// gather collects a per-token field of the rows into a tensor [M].
func (p *packed) gather(s *torch.Scope, field func(*data.Row) *[]float32) torch.Tensor {
	out := make([]float32, len(p.row))
	for i, r := range p.row {
		out[i] = (*field(&p.rows[r]))[p.token[i]]
	}
	return s.Float32s(out, len(out))
}

// scatter writes one value for each token in the loss into a per-token field.
func (p *packed) scatter(values []float32, field func(*data.Row) *[]float32) {
	for r := range p.rows {
		*field(&p.rows[r]) = make([]float32, len(p.rows[r].Tokens))
	}
	for i, r := range p.row {
		(*field(&p.rows[r]))[p.token[i]] = values[i]
	}
}

// read is a tensor and a function of its values.
type read struct {
	t    torch.Tensor
	then func(values []float64)
}

// later makes fetch call a function with the values of t.
func (p *packed) later(t torch.Tensor, then func(values []float64)) {
	p.reads = append(p.reads, read{t.Detach(), then})
}

// laterAdd makes fetch add the only element of t to sum. The zero Tensor is 0.
func (p *packed) laterAdd(t torch.Tensor, sum *float64) {
	if !t.None() {
		p.later(t, func(v []float64) { *sum += v[0] })
	}
}

// fetch copies the tensors of later to the host in one copy, since each copy waits for a GPU, and calls their functions in order.
func (p *packed) fetch() {
	var parts []torch.Tensor
	for _, r := range p.reads {
		parts = append(parts, r.t.Reshape(r.t.Numel()).To(torch.Float64))
	}
	values := torch.Cat(parts, 0).ToFloat64s()
	for _, r := range p.reads {
		n := r.t.Numel()
		r.then(values[:n])
		values = values[n:]
	}
	p.reads = nil
}

// narrow converts to float32.
func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}
