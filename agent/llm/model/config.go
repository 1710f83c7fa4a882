package model

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/openmanus/openmanus/torch/nn"
)

// Config holds the hyper-parameters of a decoder. Config.settings lists their
// keys in config.json and in GGUF metadata.
type Config struct {
	ModelType             string // model_type: llama, qwen2, qwen3
	VocabSize             int
	HiddenSize            int
	IntermediateSize      int
	NumHiddenLayers       int
	NumAttentionHeads     int
	NumKeyValueHeads      int
	HeadDim               int
	MaxPositionEmbeddings int
	RMSNormEps            float64
	RopeTheta             float64
	RopeScaling           nn.RoPEScaling
	TieWordEmbeddings     bool
	Labels                int // num_labels of a sequence classifier, which has a score head and no lm_head; 0: a language model
	InitializerRange      float64
	Extra                 Extra // hyper-parameters that only this family has; nil: none

	DType string // dtype (torch_dtype) of the checkpoint; "" if config.json leaves it out

	BOSTokenID  *int32
	PadTokenID  *int32
	EOSTokenIDs tokenIDs
}

// Limits on sizes, so that a hostile configuration cannot allocate huge amounts
// of memory before its weights are read.
const (
	maxVocab  = 1 << 22
	maxWidth  = 1 << 18
	maxLayers = 1 << 12
	maxLength = 1 << 26
)

// Setting is one hyper-parameter of a model.
type Setting struct {
	Key   string // name in config.json
	GGUF  string // name in GGUF metadata, after the architecture and a dot; "": not in GGUF
	Field any    // *int, *float64 or *bool
	Max   int    // largest valid value of an *int; the smallest is 1
}

// settings lists the hyper-parameters that are read from config.json and from
// GGUF metadata in the same way. A number that is 0 counts as missing.
func (c *Config) settings() []Setting {
	list := []Setting{
		{"vocab_size", "", &c.VocabSize, maxVocab},
		{"hidden_size", "embedding_length", &c.HiddenSize, maxWidth},
		{"intermediate_size", "feed_forward_length", &c.IntermediateSize, maxWidth},
		{"num_hidden_layers", "block_count", &c.NumHiddenLayers, maxLayers},
		{"num_attention_heads", "attention.head_count", &c.NumAttentionHeads, maxWidth},
		{"num_key_value_heads", "attention.head_count_kv", &c.NumKeyValueHeads, maxWidth},
		{"head_dim", "attention.key_length", &c.HeadDim, maxWidth},
		{"max_position_embeddings", "context_length", &c.MaxPositionEmbeddings, maxLength},
		{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &c.RMSNormEps, 0},
		{"initializer_range", "", &c.InitializerRange, 0},
		{"tie_word_embeddings", "", &c.TieWordEmbeddings, 0},
	}
	if c.Extra != nil {
		list = append(list, c.Extra.Settings()...)
	}
	return list
}

// Validate reports every fault of a configuration.
func (c *Config) Validate() error {
	var errs []error
	for _, s := range c.settings() {
		if v, ok := s.Field.(*int); ok && (*v < 1 || *v > s.Max) {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", s.Key, *v, s.Max))
		}
	}
	if c.Labels < 0 || c.Labels > maxVocab {
		errs = append(errs, fmt.Errorf("num_labels is %d, want at most %d", c.Labels, maxVocab))
	}
	if c.NumKeyValueHeads > 0 && c.NumAttentionHeads%c.NumKeyValueHeads != 0 {
		errs = append(errs, fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads))
	}
	if c.HeadDim%2 != 0 {
		errs = append(errs, fmt.Errorf("head_dim %d is odd, rotary embeddings need an even number", c.HeadDim))
	}
	if !(c.RMSNormEps > 0) || math.IsInf(c.RMSNormEps, 0) {
		errs = append(errs, fmt.Errorf("rms_norm_eps is %v, want a positive number", c.RMSNormEps))
	}
	if c.HeadDim > 0 && c.HeadDim%2 == 0 { // other head widths were reported above
		errs = append(errs, c.rope().Validate())
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
	return nn.RoPE{Theta: c.RopeTheta, HeadDim: c.HeadDim, RoPEScaling: c.RopeScaling}
}

func ids(p *int32) []int32 {
	if p == nil {
		return nil
	}
	return []int32{*p}
}
