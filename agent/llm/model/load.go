package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// source is a checkpoint whose tensors have Hugging Face names.
type source interface {
	// names lists all tensors. Tensors that the decoder does not have keep
	// their own names.
	names() []string
	// shape returns a tensor's shape; ok is false if the source lacks it.
	shape(name string) (shape []int, ok bool)
	// count adds the tensors to types by stored type, and returns their bytes.
	count(types map[string]int) (bytes int64, err error)
	// read returns the whole tensor in any floating-point dtype.
	read(s *torch.Scope, name string) (torch.Tensor, error)
}

// load makes a model from a checkpoint, which must match the configuration
// exactly.
func load(ctx context.Context, t *torch.Thread, c Config, dt torch.DType, src source) (*Model, error) {
	d, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	if err := checkTensors(&c, d.declared.weights, src); err != nil {
		return nil, err
	}
	m, err := build(ctx, t, c, dt, func(s *torch.Scope, _ int, w weight) (torch.Tensor, error) {
		return src.read(s, w.name)
	})
	if err != nil {
		return nil, err
	}
	if err := checkTied(ctx, m, src); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// maxFaults is the number of tensors that an error lists; it counts the rest.
const maxFaults = 8

// checkTensors reports every missing, misshapen and unexpected tensor.
func checkTensors(c *Config, want []weight, src source) error {
	var faults []string
	expected := map[string]bool{}
	for _, w := range want {
		expected[w.name] = true
		switch got, ok := src.shape(w.name); {
		case !ok:
			faults = append(faults, fmt.Sprintf("tensor %s is missing", w.name))
		case !slices.Equal(got, w.shape):
			faults = append(faults, fmt.Sprintf("tensor %s has shape %v, want %v by the configuration", w.name, got, w.shape))
		}
	}
	names := src.names()
	sort.Strings(names)
	for _, n := range names {
		if !expected[n] && !derived(c, n) {
			faults = append(faults, fmt.Sprintf("tensor %s is unexpected", clip(n)))
		}
	}
	return joinFaults("the weights do not fit the configuration", faults)
}

// joinFaults returns one error for all faults, or nil if there are none.
func joinFaults(what string, faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	more := ""
	if len(faults) > maxFaults {
		more = fmt.Sprintf("; and %d more", len(faults)-maxFaults)
		faults = faults[:maxFaults]
	}
	return fmt.Errorf("%s: %s%s", what, strings.Join(faults, "; "), more)
}

// derived reports whether a tensor is redundant: the output head of tied
// embeddings, which checkTied compares, or the rotary frequencies that old
// releases saved.
func derived(c *Config, name string) bool {
	return c.TieWordEmbeddings && name == headName || strings.HasSuffix(name, ".rotary_emb.inv_freq")
}

// checkTied returns an error if the configuration ties embeddings whose weights
// differ in the checkpoint.
func checkTied(ctx context.Context, m *Model, src source) error {
	if _, ok := src.shape(headName); !ok || !m.Config.TieWordEmbeddings {
		return nil
	}
	return torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		head, err := src.read(s, headName)
		if err != nil {
			return err
		}
		if !slices.Equal(head.Shape(), m.EmbedTokens.Weight.Shape()) ||
			head.To(m.dtype).Sub(m.EmbedTokens.Weight).Abs().Max().Item() != 0 {
			return errors.New("tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight")
		}
		return nil
	})
}

// folderSource reads a Hugging Face folder's safetensors.
type folderSource struct{ *safetensors.Folder }

func (f folderSource) names() []string { return f.Names() }

func (f folderSource) shape(name string) ([]int, bool) {
	info, ok := f.Info(name)
	return toInts(info.Shape), ok
}

func (f folderSource) count(types map[string]int) (bytes int64, err error) {
	for _, n := range f.Names() {
		info, data, err := f.Tensor(n)
		if err != nil {
			return 0, err
		}
		types[string(info.DType)]++
		bytes += int64(len(data))
	}
	return bytes, nil
}

// torchTypes maps the dtypes in which weights may be stored.
var torchTypes = map[safetensors.DType]torch.DType{
	safetensors.F64: torch.Float64, safetensors.F32: torch.Float32,
	safetensors.F16: torch.Float16, safetensors.BF16: torch.BFloat16,
}

func (f folderSource) read(s *torch.Scope, name string) (torch.Tensor, error) {
	info, data, err := f.Tensor(name)
	if err != nil {
		return torch.Tensor{}, err
	}
	dt, ok := torchTypes[info.DType]
	if !ok {
		return torch.Tensor{}, fmt.Errorf("tensor %s is stored as %s; weights must be floating-point", name, info.DType)
	}
	return s.Bytes(data, dt, toInts(info.Shape)...), nil
}

func toInts(a []int64) []int {
	out := make([]int, len(a))
	for i, v := range a {
		out[i] = int(v)
	}
	return out
}
