package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// readConfig reads the configuration of a Hugging Face folder.
func readConfig(dir string) (Config, error) {
	text, err := readFile(dir, "config.json")
	if err != nil {
		return Config{}, err
	}
	c, err := ParseConfig(text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// loadFolder loads the weights of a Hugging Face folder.
func loadFolder(ctx context.Context, t *torch.Thread, dir string, c Config, dt torch.DType) (*Model, error) {
	f, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := load(ctx, t, c, dt, folderSource{f})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	return m, nil
}

// maxSmall bounds the size in bytes of files other than the weights.
const maxSmall = 256 << 20

// readFile reads a file of at most maxSmall bytes in a model folder.
func readFile(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSmall {
		return nil, fmt.Errorf("%s is larger than %d MiB", f.Name(), maxSmall>>20)
	}
	return text, nil
}
