package model

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/torch"
)

// GGUFOptions configure WriteGGUF.
type GGUFOptions struct {
	// Type is the type of matrices: F32, BF16 or Q8_0. Norms and biases are always
	// F32, as llama.cpp requires.
	Type gguf.Type
	Name string // general.name
	// Progress, if not nil, is called with the number of written tensors.
	Progress func(written int)
}

// fileTypes holds the value of general.file_type (llama.cpp, llama_ftype) for each
// type of matrices.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.Q8_0: 7, gguf.BF16: 32}

// WriteGGUF writes the model, with adapters merged, its tokenizer and its chat
// template as a GGUF file that llama.cpp opens. It holds one tensor in memory at a
// time besides the model.
func (b *Bundle) WriteGGUF(ctx context.Context, w io.Writer, o GGUFOptions) error {
	if err := b.writeGGUF(ctx, w, o); err != nil {
		return fmt.Errorf("write model as GGUF: %w", err)
	}
	return nil
}

func (b *Bundle) writeGGUF(ctx context.Context, w io.Writer, o GGUFOptions) error {
	m := b.Model
	if m.Config.Labels > 0 {
		return errors.New("a sequence classifier has no GGUF form")
	}
	if err := m.errTensorParallel(); err != nil {
		return err
	}
	meta, err := m.Config.ggufPairs(o)
	if err != nil {
		return err
	}
	vocabulary, err := gguf.TokenizerPairs(b.Tokenizer, b.TokenizerConfig, b.EOSTokenIDs(), m.Config.VocabSize)
	if err != nil {
		return err
	}
	var specs []gguf.Spec
	factors, err := m.Config.ropeDivisors()
	if err != nil {
		return err
	}
	if factors != nil {
		specs = append(specs, gguf.Spec{Name: ropeFactors, Info: gguf.Info{Type: gguf.F32, Shape: []int{len(factors)}}})
	}
	first := len(specs)
	for _, w := range m.declared.weights {
		t := o.Type
		if len(w.shape) == 1 {
			t = gguf.F32
		}
		specs = append(specs, gguf.Spec{Name: w.gguf, Info: gguf.Info{Type: t, Shape: w.shape}})
	}
	return gguf.Write(w, append(meta, vocabulary...), specs, func(i int) (data []byte, err error) {
		if i >= first {
			err = torch.Run(ctx, m.thread, func(s *torch.Scope) error {
				s.NoGrad(func() { data, err = gguf.Quantize(specs[i].Type, m.ggufValues(s, i-first)) })
				return err
			})
		} else {
			data, err = gguf.Quantize(gguf.F32, factors)
		}
		if err == nil && o.Progress != nil {
			o.Progress(i + 1)
		}
		return data, err
	})
}

// ggufValues returns the elements of declared weight i in the order of GGUF files, with adapters merged.
func (m *Model) ggufValues(s *torch.Scope, i int) []float32 {
	t, w := m.merged(s, i), m.declared.weights[i]
	if w.rotary && m.family.ggufInterleaved {
		t = interleave(t, w.shape, m.Config.HeadDim)
	}
	return t.To(torch.Float32).Contiguous().ToFloat32s()
}

// interleave is the inverse of deinterleave.
func interleave(t torch.Tensor, shape []int, headDim int) torch.Tensor {
	return t.View(shape[0]/headDim, 2, headDim/2, -1).Transpose(1, 2).Reshape(shape...)
}

// ggufPairs returns the metadata of the configuration, which ggufConfig reads.
func (c *Config) ggufPairs(o GGUFOptions) ([]gguf.Pair, error) {
	fileType, ok := fileTypes[o.Type]
	if !ok {
		return nil, fmt.Errorf("type %s is not supported (supported: F32, BF16, Q8_0)", o.Type)
	}
	pairs := []gguf.Pair{{Key: "general.architecture", Value: c.ModelType}, {Key: "general.type", Value: "model"}}
	if o.Name != "" {
		pairs = append(pairs, gguf.Pair{Key: "general.name", Value: o.Name})
	}
	pairs = append(pairs, gguf.Pair{Key: "general.file_type", Value: fileType}, gguf.Pair{Key: "general.quantization_version", Value: uint32(2)})
	add := func(key string, value any) {
		pairs = append(pairs, gguf.Pair{Key: c.ModelType + "." + key, Value: value})
	}
	for _, s := range c.settings() {
		if s.GGUF == "" {
			continue
		}
		switch v := s.Field.(type) {
		case *int:
			add(s.GGUF, uint32(*v))
		case *float64:
			add(s.GGUF, float32(*v))
		case *bool:
			add(s.GGUF, *v)
		}
	}
	add("vocab_size", uint32(c.VocabSize))
	add("attention.value_length", uint32(c.HeadDim))
	add("rope.dimension_count", uint32(c.HeadDim))
	add("rope.freq_base", float32(c.RopeTheta))
	switch c.RopeScaling.Type {
	case "linear":
		add("rope.scaling.type", "linear")
		add("rope.scaling.factor", float32(c.RopeScaling.Factor))
	case "llama3":
		add("rope.scaling.original_context_length", uint32(c.RopeScaling.OriginalMaxPositions))
	}
	return pairs, nil
}

// ropeDivisors returns the divisors of the frequencies of llama3 scaling, or nil for
// another scaling.
func (c *Config) ropeDivisors() ([]float32, error) {
	if c.RopeScaling.Type != "llama3" {
		return nil, nil
	}
	if c.ModelType != "llama" {
		return nil, fmt.Errorf("llama.cpp reads the scaling of rotary frequencies (rope_type llama3) only for llama, the model is %s", c.ModelType)
	}
	plain := *c
	plain.RopeScaling.Type = ""
	unscaled := plain.rope().Frequencies()
	divisors := make([]float32, len(unscaled))
	for i, f := range c.rope().Frequencies() {
		divisors[i] = unscaled[i] / f
		if factor := float32(c.RopeScaling.Factor); divisors[i] > factor*(1-1e-6) {
			divisors[i] = factor // without the rounding errors of the frequencies
		}
	}
	_, err := llama3FromFactors(*c, divisors, c.RopeScaling.OriginalMaxPositions)
	return divisors, err
}
