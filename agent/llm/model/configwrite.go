package model

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// configFile is config.json in both layouts. Transformers 5 reads dtype and
// rope_parameters; transformers 4 reads torch_dtype, rope_theta and
// rope_scaling, and without them it computes with its defaults and says nothing.
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
	ID2Label              map[int]string `json:"id2label,omitempty"`
	InitializerRange      float64        `json:"initializer_range"`
	IntermediateSize      int            `json:"intermediate_size"`
	Label2ID              map[string]int `json:"label2id,omitempty"`
	MaxPositionEmbeddings int            `json:"max_position_embeddings"`
	MLPBias               *bool          `json:"mlp_bias,omitempty"`
	ModelType             string         `json:"model_type"`
	NumAttentionHeads     int            `json:"num_attention_heads"`
	NumHiddenLayers       int            `json:"num_hidden_layers"`
	NumKeyValueHeads      int            `json:"num_key_value_heads"`
	PadTokenID            *int32         `json:"pad_token_id"`
	RMSNormEps            float64        `json:"rms_norm_eps"`
	RopeParameters        map[string]any `json:"rope_parameters"`
	RopeScaling           map[string]any `json:"rope_scaling"`
	RopeTheta             float          `json:"rope_theta"`
	TieWordEmbeddings     bool           `json:"tie_word_embeddings"`
	TorchDType            string         `json:"torch_dtype"`
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
		RopeScaling: c.ropeScaling(), RopeTheta: float(c.RopeTheta),
		TieWordEmbeddings: c.TieWordEmbeddings, TorchDType: dtype, UseCache: true, VocabSize: c.VocabSize,
	}
	if c.Labels > 0 {
		f.Architectures = []string{family.classifier()}
		f.ID2Label, f.Label2ID = map[int]string{}, map[string]int{}
		for i := range c.Labels {
			name := fmt.Sprintf("LABEL_%d", i)
			f.ID2Label[i], f.Label2ID[name] = name, i
		}
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

// ropeParameters is rope_parameters of transformers 5.
func (c *Config) ropeParameters() map[string]any {
	p := c.ropeScaling()
	if p == nil {
		p = map[string]any{"rope_type": "default"}
	}
	p["rope_theta"] = float(c.RopeTheta)
	return p
}

// ropeScaling is rope_scaling of transformers 4: null where there is none.
func (c *Config) ropeScaling() map[string]any {
	s := c.RopeScaling
	switch s.Type {
	case "linear":
		return map[string]any{"rope_type": s.Type, "factor": float(s.Factor)}
	case "llama3":
		return map[string]any{
			"rope_type": s.Type, "factor": float(s.Factor),
			"low_freq_factor": float(s.LowFreqFactor), "high_freq_factor": float(s.HighFreqFactor),
			"original_max_position_embeddings": s.OriginalMaxPositionEmbeddings,
		}
	}
	return nil
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
