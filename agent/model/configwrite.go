package model

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// configFile is config.json in the layout of transformers 5, which
// transformers 4.56 and later read too; torch_dtype and rope_theta are there
// for older readers.
type configFile struct {
	Architectures         []string       `json:"architectures"`
	AttentionBias         *bool          `json:"attention_bias,omitempty"`
	AttentionDropout      float64        `json:"attention_dropout"`
	BOSTokenID            *int32         `json:"bos_token_id"`
	DType                 string         `json:"dtype"`
	EOSTokenID            any            `json:"eos_token_id"`
	HeadDim               int            `json:"head_dim"`
	HiddenAct             string         `json:"hidden_act"`
	HiddenSize            int            `json:"hidden_size"`
	InitializerRange      float64        `json:"initializer_range"`
	IntermediateSize      int            `json:"intermediate_size"`
	MaxPositionEmbeddings int            `json:"max_position_embeddings"`
	MLPBias               *bool          `json:"mlp_bias,omitempty"`
	ModelType             string         `json:"model_type"`
	NumAttentionHeads     int            `json:"num_attention_heads"`
	NumHiddenLayers       int            `json:"num_hidden_layers"`
	NumKeyValueHeads      int            `json:"num_key_value_heads"`
	PadTokenID            *int32         `json:"pad_token_id"`
	RMSNormEps            float64        `json:"rms_norm_eps"`
	RopeParameters        map[string]any `json:"rope_parameters"`
	TieWordEmbeddings     bool           `json:"tie_word_embeddings"`
	UseCache              bool           `json:"use_cache"`
	VocabSize             int            `json:"vocab_size"`
}

// WriteJSON writes the configuration as a config.json that transformers reads.
// dtype is what the weights beside it are stored in.
func (c *Config) WriteJSON(w io.Writer, dtype string) error {
	if !known(c.ModelType) {
		return unknownModelType(c.ModelType)
	}
	family := familyOf(c.ModelType)
	f := configFile{
		Architectures: []string{family.architecture}, BOSTokenID: c.BOSTokenID, DType: dtype, EOSTokenID: oneOrList(c.EOSTokenIDs),
		HeadDim: c.HeadDim, HiddenAct: "silu", HiddenSize: c.HiddenSize, InitializerRange: c.InitializerRange,
		IntermediateSize: c.IntermediateSize, MaxPositionEmbeddings: c.MaxPositionEmbeddings, ModelType: c.ModelType,
		NumAttentionHeads: c.NumAttentionHeads, NumHiddenLayers: c.NumHiddenLayers, NumKeyValueHeads: c.NumKeyValueHeads,
		PadTokenID: c.PadTokenID, RMSNormEps: c.RMSNormEps, RopeParameters: c.ropeParameters(),
		TieWordEmbeddings: c.TieWordEmbeddings, UseCache: true, VocabSize: c.VocabSize,
	}
	if family.writesBias {
		f.AttentionBias = new(bool)
	}
	if c.ModelType == "llama" {
		f.MLPBias = new(bool)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(f)
}

func (c *Config) ropeParameters() map[string]any {
	s := c.RopeScaling
	p := map[string]any{"rope_type": "default", "rope_theta": float(c.RopeTheta)}
	if s.Type == "linear" || s.Type == "llama3" {
		p["rope_type"] = s.Type
		p["factor"] = float(s.Factor)
	}
	if s.Type == "llama3" {
		p["low_freq_factor"] = float(s.LowFreqFactor)
		p["high_freq_factor"] = float(s.HighFreqFactor)
		p["original_max_position_embeddings"] = s.OriginalMaxPositionEmbeddings
	}
	return p
}

func oneOrList(ids []int32) any {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return ids[0]
	}
	return ids
}

// float is written with a fraction or an exponent even when it is whole:
// transformers warns of a rope factor that is an integer.
type float float64

// MarshalJSON implements json.Marshaler.
func (f float) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(f), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}
