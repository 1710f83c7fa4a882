package model

// Tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053, section 3). Each of N ranks has 1/N of the heads and of the
// inner width of every block. q, k, v, gate and up are split by outputs, o and down by inputs:
//
//	attention(x) = Σ_r o_r(heads_r(x)),  mlp(x) = Σ_r down_r(silu(gate_r(x)) · up_r(x))
//
// so that a block needs two sums over the ranks. The embedding and the output head are split by tokens of the vocabulary: the
// sum over the ranks of the rows that a rank has is the embedding, and the ranks' logits are gathered. If N is a multiple of
// the number of key and value heads, each of these heads is on several ranks.
//
// Differs from the paper in that the vocabulary is padded at its end instead of in the checkpoint.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// tensorParallel describes the part of a model that one rank holds.
type tensorParallel struct {
	group *dist.Group
	local Config          // the sizes of this rank's blocks
	parts map[string]part // by the names of the weights and, once there are adapters, of their matrices

	partial int // number of layers that are split by inputs, so that their outputs are summed over the ranks
	summed  int // number of outputs that the current pass has summed
}

// part is the part of a tensor that a rank has: the elements at … at+n-1 of dimension dim. In the vocabulary zeros follow
// up to the size of the rank's tensor. The zero part is the whole tensor.
type part struct {
	whole  []int // shape of the whole tensor; nil: the rank has all of it
	dim    int
	at, n  int
	copies int // number of ranks that have the same part
}

// TensorParallel returns this rank's part of m in dtype dt, with adapters merged. m is whole, or sharded over ranks that all call it. The caller
// closes the result. CopyWeights updates it. TensorParallel returns an error if the model cannot be tensor parallel over the ranks of g.
func (m *Model) TensorParallel(ctx context.Context, g *dist.Group, dt torch.DType) (*Model, error) {
	c, err := declareTensorParallel(m.Config, g)
	if err != nil {
		return nil, err
	}
	err = c.postpone(m.thread, dt, func(s *torch.Scope, i int, w weight) (torch.Tensor, error) {
		// A part of dimension 0 is a view of the whole weight, which must not be shared.
		return c.part(s, w.name, m.merged(s, i)).Clone(), nil
	})
	if c, err = loaded(ctx, c, err); err != nil {
		return nil, fmt.Errorf("make the model tensor parallel: %w", err)
	}
	return c, nil
}

// Ranks returns the group over which the model is tensor parallel, or nil.
func (m *Model) Ranks() *dist.Group {
	if m.tp == nil {
		return nil
	}
	return m.tp.group
}

// blocks returns the configuration of the blocks that this rank has.
func (m *Model) blocks() *Config {
	if m.tp == nil {
		return &m.Config
	}
	return &m.tp.local
}

// declareTensorParallel declares this rank's part of a model without weights. A nil group, or one of one rank, has the whole model.
func declareTensorParallel(c Config, g *dist.Group) (*Model, error) {
	m, err := newDecoder(c)
	if err != nil || g == nil || g.Size() == 1 {
		return m, err
	}
	local, err := m.Config.Local(g.Size())
	if err != nil {
		return nil, err
	}
	whole := m.declared
	m.tp = &tensorParallel{group: g, local: local, parts: map[string]part{}}
	rows := (m.Config.VocabSize + g.Size() - 1) / g.Size()
	m.EmbedTokens.Rows, m.LMHead.Out = rows, rows
	for i := range m.Layers {
		m.Layers[i] = m.family.block(&local, i)
	}
	m.declared = m.declare()
	if err := m.tp.checkBlocks(whole, m.declared); err != nil {
		return nil, fmt.Errorf("model_type %s cannot be tensor parallel over %d ranks: %w", m.Config.ModelType, g.Size(), err)
	}
	for i, w := range m.declared.weights {
		vocabulary := w.field == &m.EmbedTokens.Weight || w.field == &m.LMHead.Weight
		m.tp.add(w.name, whole.weights[i].shape, w.shape, vocabulary)
	}
	return m, nil
}

// Local returns the configuration of the blocks of one of n ranks.
func (c Config) Local(n int) (Config, error) {
	if c.Labels > 0 {
		return c, errors.New("a sequence classifier cannot be tensor parallel over several ranks, because it does not generate")
	}
	divides := func(key string, size *int) error {
		if *size%n != 0 {
			return fmt.Errorf("%s %d is not a multiple of %d ranks", key, *size, n)
		}
		*size /= n
		return nil
	}
	all := c
	err := errors.Join(divides("num_attention_heads", &c.NumAttentionHeads), divides("intermediate_size", &c.IntermediateSize))
	if kv := c.NumKeyValueHeads; n%kv == 0 {
		c.NumKeyValueHeads = 1
	} else {
		err = errors.Join(err, divides("num_key_value_heads", &c.NumKeyValueHeads))
	}
	if err != nil {
		return c, fmt.Errorf("the model cannot be tensor parallel over %d ranks (use %s): %w", n, all.ranks(), err)
	}
	return c, nil
}

// ranks lists the numbers of ranks over which the model can be tensor parallel.
func (c Config) ranks() string {
	var list []string
	for n := 1; n <= c.NumAttentionHeads; n++ {
		kv := c.NumKeyValueHeads
		if c.NumAttentionHeads%n == 0 && c.IntermediateSize%n == 0 && (n%kv == 0 || kv%n == 0) {
			list = append(list, fmt.Sprint(n))
		}
	}
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " or " + list[last]
	}
	return list[0]
}

// checkBlocks returns an error if the blocks have a parameter or a layer to which the formula of this file does not apply. A linear
// layer is split by inputs, by outputs or not at all; one that is split by inputs has no bias, which would be added on every rank;
// the other parameters are whole.
func (c *tensorParallel) checkBlocks(whole, local declaration) error {
	splits := map[*torch.Tensor]bool{}
	for i, l := range local.linears {
		w := whole.linears[i].l
		byInput, byOutput := l.l.In != w.In, l.l.Out != w.Out
		if byInput && byOutput {
			return fmt.Errorf("%s [%d,%d] has the part [%d,%d], want all of its inputs or all of its outputs", l.name, w.Out, w.In, l.l.Out, l.l.In)
		}
		if byInput && l.l.HasBias {
			return fmt.Errorf("%s is split by its inputs and has a bias", l.name)
		}
		if byInput {
			c.partial++
		}
		splits[&l.l.Weight], splits[&l.l.Bias] = true, true
	}
	for i, w := range local.weights {
		if strings.HasPrefix(w.name, "model.layers.") && !splits[w.field] && !slices.Equal(w.shape, whole.weights[i].shape) {
			return fmt.Errorf("%s depends on all heads or on the whole inner width", w.name)
		}
	}
	return nil
}

// add computes this rank's part of a tensor from the shapes of the whole and of the part. In the vocabulary the ranks have
// successive rows; of another dimension, adjacent ranks have the same part if there are fewer parts than ranks.
func (c *tensorParallel) add(name string, whole, local []int, vocabulary bool) {
	p := part{copies: c.group.Size()}
	for d := range whole {
		if size := local[d]; size != whole[d] {
			p = part{whole: whole, dim: d, copies: 1}
			if vocabulary {
				p.at = min(c.group.Rank()*size, whole[d])
			} else {
				p.copies = c.group.Size() * size / whole[d]
				p.at = c.group.Rank() / p.copies * size
			}
			p.n = min(size, whole[d]-p.at)
		}
	}
	c.parts[name] = p
}

// addAdapters computes the rank's parts of the adapters of the layers in list.
func (c *tensorParallel) addAdapters(list []linear, rank int) {
	for _, l := range list {
		whole := c.parts[l.name+".weight"].whole
		if whole == nil {
			whole = []int{l.l.Out, l.l.In}
		}
		a, b := peftPrefix+l.name+peftA, peftPrefix+l.name+peftB
		c.add(a, []int{rank, whole[1]}, []int{rank, l.l.In}, false)
		c.add(b, []int{whole[0], rank}, []int{l.l.Out, rank}, false)
	}
}

// part returns this rank's part of a whole weight or adapter, as a view if possible.
func (m *Model) part(s *torch.Scope, name string, v torch.Tensor) torch.Tensor {
	if m.tp == nil {
		return v
	}
	p := m.tp.parts[name]
	if p.whole == nil {
		return v
	}
	return m.tp.pad(s, p, v.Narrow(p.dim, p.at, p.n))
}

// read reads this rank's part of the tensor that the source has under a name. name is the name of the weight.
func (m *Model) read(s *torch.Scope, src source, stored, name string) (torch.Tensor, error) {
	if m.tp == nil || m.tp.parts[name].whole == nil {
		return src.read(s, stored)
	}
	p := m.tp.parts[name]
	v, err := src.readPart(s, stored, p.dim, p.at, p.n)
	if err != nil {
		return v, err
	}
	return m.tp.pad(s, p, v), nil
}

// pad appends zeros to the last parts of the vocabulary.
func (c *tensorParallel) pad(s *torch.Scope, p part, v torch.Tensor) torch.Tensor {
	shape := v.Shape()
	size := c.size(p)
	if shape[p.dim] == size {
		return v
	}
	shape[p.dim] = size - shape[p.dim]
	return torch.Cat([]torch.Tensor{v, s.Zeros(v.DType(), shape...)}, p.dim)
}

// size returns the size of a rank's tensor in the dimension in which it is split.
func (c *tensorParallel) size(p part) int {
	ranks := c.group.Size() / p.copies
	return (p.whole[p.dim] + ranks - 1) / ranks
}

// whole returns the whole tensor of a weight or an adapter. All ranks call it.
func (m *Model) whole(p Param) torch.Tensor {
	if m.tp == nil || m.tp.parts[p.Name].whole == nil {
		return p.Tensor
	}
	at := m.tp.parts[p.Name]
	rows := p.Tensor.Detach().Transpose(0, at.dim).Contiguous()
	size := rows.Size(0)
	all := m.tp.gather(rows)
	if at.copies > 1 {
		var first []torch.Tensor
		for r := 0; r < m.tp.group.Size(); r += at.copies {
			first = append(first, all.Narrow(0, r*size, size))
		}
		all = torch.Cat(first, 0)
	}
	return all.Narrow(0, 0, at.whole[at.dim]).Transpose(0, at.dim).Contiguous()
}

// sum returns the sum of x over the ranks, which all get the same bits. It may overwrite x. The time-out of the group limits the wait.
func (c *tensorParallel) sum(x torch.Tensor) torch.Tensor {
	x = x.Contiguous()
	if err := c.group.AllReduce(context.Background(), x); err != nil {
		torch.FailWith("AllReduce", err, x)
	}
	return x
}

// gather concatenates the contiguous x of all ranks along dimension 0.
func (c *tensorParallel) gather(x torch.Tensor) torch.Tensor {
	parts := make([]torch.Tensor, c.group.Size())
	for i := range parts {
		parts[i] = x
	}
	all := torch.Cat(parts, 0) // only its memory is used
	if err := c.group.AllGather(context.Background(), all, x); err != nil {
		torch.FailWith("AllGather", err, x)
	}
	return all
}

// embed returns the embeddings [N,D] of ids.
func (m *Model) embed(s *torch.Scope, ids []int32) torch.Tensor {
	if m.tp == nil {
		return m.EmbedTokens.Forward(s.Int32s(ids, len(ids)))
	}
	rows := m.EmbedTokens.Rows
	row, own := make([]int32, len(ids)), make([]float32, len(ids))
	for i, id := range ids {
		if r := int(id) - m.tp.group.Rank()*rows; r >= 0 && r < rows {
			row[i], own[i] = int32(r), 1
		}
	}
	x := m.EmbedTokens.Forward(s.Int32s(row, len(ids)))
	return m.tp.sum(x.Mul(s.Float32s(own, len(ids), 1).To(m.dtype)))
}

// logits concatenates the logits [R,L] of the ranks' parts of the vocabulary to [R,V].
func (c *tensorParallel) logits(x torch.Tensor, vocabulary int) torch.Tensor {
	rows, width := x.Size(0), x.Size(1)
	all := c.gather(x.Contiguous()).View(c.group.Size(), rows, width).Transpose(0, 1)
	return all.Reshape(rows, -1).Narrow(1, 0, vocabulary).Contiguous()
}

// begin makes a pass sum the outputs of the layers that are split by inputs.
func (c *tensorParallel) begin(p *nn.Pass) {
	c.summed = 0
	p.Sum = func(x torch.Tensor) torch.Tensor {
		c.summed++
		return c.sum(x)
	}
}

// end checks that the pass has summed all outputs. A layer that does not call Pass.Out would give a part of the result.
func (c *tensorParallel) end() {
	if c.summed != c.partial {
		torch.Fail("Decode", fmt.Sprintf("%d of %d layers that are split by their inputs were applied by Pass.Out; correct the Forward methods of the model family", c.summed, c.partial))
	}
}

// mustBeWhole ends the function that torch.Run is running if the model is tensor parallel.
func (m *Model) mustBeWhole(op string) {
	if err := m.errTensorParallel(); err != nil {
		torch.Fail(op, err.Error())
	}
}

// errTensorParallel returns an error if the model is tensor parallel, since such a model can only generate.
func (m *Model) errTensorParallel() error {
	if m.tp == nil {
		return nil
	}
	return fmt.Errorf("the model is tensor parallel over %d ranks, and can only generate", m.tp.group.Size())
}

// norm returns the global norm of the whole model's weights.
func (c *tensorParallel) norm(s *torch.Scope, params []Param) float64 {
	byCopies := map[int][]torch.Tensor{}
	for _, p := range params {
		n := c.parts[p.Name].copies
		byCopies[n] = append(byCopies[n], p.Tensor)
	}
	sum := 0.0
	for _, copies := range slices.Sorted(maps.Keys(byCopies)) {
		n := torch.GlobalNorm(byCopies[copies])
		sum += n * n / float64(copies)
	}
	return math.Sqrt(c.sum(s.Float64s([]float64{sum}, 1)).Item())
}

// loadAdapters overwrites the adapters with this rank's parts of the adapters in a file.
func (m *Model) loadAdapters(ctx context.Context, f *safetensors.File) error {
	if m.tp == nil {
		return store.Load(ctx, m.thread, f, m.Adapters(), true)
	}
	var want []safetensors.Spec
	for _, p := range m.Adapters() {
		shape := m.tp.parts[p.Name].whole
		if shape == nil {
			shape = p.Tensor.Shape()
		}
		want = append(want, safetensors.Spec{Name: p.Name, Info: safetensors.Info{Shape: shape}})
	}
	if err := safetensors.Fit(f, want, nil); err != nil {
		return err
	}
	return torch.Run(ctx, m.thread, func(s *torch.Scope) (err error) {
		s.NoGrad(func() {
			for _, p := range m.Adapters() {
				var v torch.Tensor
				if v, err = store.Read(s, f, p.Name); err != nil {
					return
				}
				p.Tensor.Copy_(m.part(s, p.Name, v))
			}
		})
		return err
	})
}
