package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/safetensors"
	"github.com/openmanus/openmanus/torch/store"
)

// source is a checkpoint whose tensors have Hugging Face names. Tensors that
// the decoder does not have keep the names of the file.
type source interface {
	safetensors.Listing
	// count counts the tensors of each stored type in the map types and returns the total size of all tensors in bytes.
	count(types map[string]int) (bytes int64, err error)
	// read returns the whole tensor in any floating-point dtype.
	read(s *torch.Scope, name string) (torch.Tensor, error)
	// readPart returns the elements at … at+n-1 of dimension dim of a tensor.
	readPart(s *torch.Scope, name string, dim, at, n int) (torch.Tensor, error)
}

// load makes a model from a checkpoint, which must match the configuration
// exactly.
func load(ctx context.Context, t *torch.Thread, c Config, dt torch.DType, src source) (*Model, error) {
	m, err := deferLoad(ctx, t, c, dt, src, nil)
	return loaded(ctx, m, err)
}

// deferLoad makes a deferred model from a checkpoint; see load. With several ranks in g it is this rank's part of a tensor-parallel model.
func deferLoad(ctx context.Context, t *torch.Thread, c Config, dt torch.DType, src source, g *dist.Group) (*Model, error) {
	d, err := newDecoder(c)
	if err != nil {
		return nil, err
	}
	var want []safetensors.Spec
	for _, w := range d.declared.weights {
		want = append(want, safetensors.Spec{Name: w.name, Info: safetensors.Info{Shape: w.shape}})
	}
	if err := safetensors.Fit(src, want, c.redundant); err != nil {
		return nil, fmt.Errorf("the weights do not fit the configuration: %w", err)
	}
	m, err := declareTensorParallel(c, g)
	if err != nil {
		return nil, err
	}
	err = m.postpone(t, dt, func(s *torch.Scope, _ int, w weight) (torch.Tensor, error) {
		return m.read(s, src, w.name, w.name)
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

// redundant reports whether a tensor is not loaded: the output head of tied
// embeddings, which checkTied compares, or the rotary frequencies that old
// releases saved.
func (c *Config) redundant(name string) bool {
	return c.TieWordEmbeddings && name == headName || strings.HasSuffix(name, ".rotary_emb.inv_freq")
}

// checkTied returns an error if the configuration ties embeddings whose weights
// differ in the checkpoint.
func checkTied(ctx context.Context, m *Model, src source) error {
	if _, ok := src.Info(headName); !ok || !m.Config.TieWordEmbeddings {
		return nil
	}
	return torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		head, err := m.read(s, src, headName, m.declared.weights[0].name)
		if err != nil {
			return err
		}
		embed := m.value(s, 0)
		if !slices.Equal(head.Shape(), embed.Shape()) || head.To(m.dtype).Sub(embed).Abs().Max().Item() != 0 {
			return errors.New("tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight")
		}
		return nil
	})
}

// folderSource reads a Hugging Face folder's safetensors.
type folderSource struct{ *safetensors.Folder }

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

func (f folderSource) read(s *torch.Scope, name string) (torch.Tensor, error) {
	return store.Read(s, f, name)
}

func (f folderSource) readPart(s *torch.Scope, name string, dim, at, n int) (torch.Tensor, error) {
	return store.ReadPart(s, f, name, dim, at, n)
}
