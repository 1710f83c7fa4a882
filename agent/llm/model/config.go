package model

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/openmanus/openmanus/torch/nn"
)

// Config is what a decoder needs to know about itself. The field comments name
// the keys of config.json in transformers.
type Config struct {
	ModelType             string // model_type: llama, qwen2, qwen3
	VocabSize             int    // vocab_size
	HiddenSize            int    // hidden_size
	IntermediateSize      int    // intermediate_size
	NumHiddenLayers       int    // num_hidden_layers
	NumAttentionHeads     int    // num_attention_heads
	NumKeyValueHeads      int    // num_key_value_heads
	HeadDim               int    // head_dim
	MaxPositionEmbeddings int    // max_position_embeddings
	RMSNormEps            float64
	RopeTheta             float64
	RopeScaling           RopeScaling
	TieWordEmbeddings     bool
	Labels                int // num_labels of a sequence classifier, which has a score head and no lm_head; 0: a language model
	InitializerRange      float64

	DType string // dtype (torch_dtype): the checkpoint's own, "" if it does not say

	BOSTokenID  *int32
	PadTokenID  *int32
	EOSTokenIDs []int32
}

// RopeScaling says how rotary frequencies are stretched. The zero value, like
// Type "default", leaves them alone.
type RopeScaling struct {
	Type                          string // default, linear or llama3
	Factor                        float64
	LowFreqFactor                 float64 // llama3
	HighFreqFactor                float64 // llama3
	OriginalMaxPositionEmbeddings int     // llama3
}

// Limits keep a hostile configuration from asking for absurd amounts of memory
// before its weights have been looked at.
const (
	maxVocab  = 1 << 22
	maxWidth  = 1 << 18
	maxLayers = 1 << 12
	maxLength = 1 << 26
)

// Validate reports every fault of a configuration.
func (c *Config) Validate() error {
	var errs []error
	size := func(key string, v, limit int) {
		if v < 1 || v > limit {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", key, v, limit))
		}
	}
	size("vocab_size", c.VocabSize, maxVocab)
	size("hidden_size", c.HiddenSize, maxWidth)
	size("intermediate_size", c.IntermediateSize, maxWidth)
	size("num_hidden_layers", c.NumHiddenLayers, maxLayers)
	size("num_attention_heads", c.NumAttentionHeads, maxWidth)
	size("num_key_value_heads", c.NumKeyValueHeads, maxWidth)
	size("head_dim", c.HeadDim, maxWidth)
	size("max_position_embeddings", c.MaxPositionEmbeddings, maxLength)
	if c.Labels < 0 || c.Labels > maxVocab {
		errs = append(errs, fmt.Errorf("num_labels is %d, want at most %d", c.Labels, maxVocab))
	}
	if c.NumKeyValueHeads > 0 && c.NumAttentionHeads%c.NumKeyValueHeads != 0 {
		errs = append(errs, fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads))
	}
	if c.HeadDim%2 != 0 {
		errs = append(errs, fmt.Errorf("head_dim %d is odd, rotary embeddings want it even", c.HeadDim))
	}
	if !(c.RMSNormEps > 0) || math.IsInf(c.RMSNormEps, 0) {
		errs = append(errs, fmt.Errorf("rms_norm_eps is %v, want a positive number", c.RMSNormEps))
	}
	if c.HeadDim > 0 && c.HeadDim%2 == 0 { // else it was reported above
		rope := c.rope()
		errs = append(errs, rope.Validate())
	}
	for _, id := range slices.Concat(c.EOSTokenIDs, ids(c.BOSTokenID), ids(c.PadTokenID)) {
		if id < 0 || int(id) >= c.VocabSize {
			errs = append(errs, fmt.Errorf("special token id %d is outside the vocabulary of %d", id, c.VocabSize))
		}
	}
	return errors.Join(errs...)
}

// rope returns the rotary embeddings of the configuration.
func (c *Config) rope() nn.RoPE {
	s := c.RopeScaling
	return nn.RoPE{
		Type: s.Type, Theta: c.RopeTheta, HeadDim: c.HeadDim, Factor: s.Factor, LowFreqFactor: s.LowFreqFactor,
		HighFreqFactor: s.HighFreqFactor, OriginalMaxPositions: s.OriginalMaxPositionEmbeddings,
	}
}

func ids(p *int32) []int32 {
	if p == nil {
		return nil
	}
	return []int32{*p}
}

// NumParameters returns the number of parameters, tied ones counted once.
func (c *Config) NumParameters() (int, error) {
	d, err := newDecoder(*c)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, w := range d.weights() {
		n += w.numel()
	}
	return n, nil
}
