package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// JSON returns the configuration as a config.json that transformers reads.
// dtype is the dtype in which the weights are stored.
func (c *Config) JSON(dtype string) ([]byte, error) {
	family, err := lookupFamily(c.ModelType)
	if err != nil {
		return nil, err
	}
	// Transformers 5 reads dtype and rope_parameters. Transformers 4 reads
	// torch_dtype, rope_theta and rope_scaling, and silently uses its defaults
	// if these keys are missing.
	f := map[string]any{
		"architectures": []string{family.class}, "attention_dropout": 0.0, "bos_token_id": c.BOSTokenID, "dtype": dtype,
		"eos_token_id": c.EOSTokenIDs, "hidden_act": "silu", "model_type": c.ModelType, "pad_token_id": c.PadTokenID,
		"rope_parameters": c.ropeParameters(), "rope_scaling": c.ropeScaling(), "rope_theta": float(c.RopeTheta),
		"torch_dtype": dtype, "use_cache": true,
	}
	for _, s := range c.settings() {
		f[s.Key] = s.Field
	}
	for _, key := range family.writesFalse {
		f[key] = false
	}
	if c.Labels > 0 {
		names, ids := map[int]string{}, map[string]int{}
		for i := range c.Labels {
			names[i] = fmt.Sprintf("LABEL_%d", i)
			ids[names[i]] = i
		}
		f["architectures"], f["id2label"], f["label2id"] = []string{family.classifier()}, names, ids
	}
	return indented(f)
}

// indented returns v as indented JSON, the format of a settings file.
func indented(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

// ropeParameters returns the value of rope_parameters (transformers 5).
func (c *Config) ropeParameters() map[string]any {
	p := c.ropeScaling()
	if p == nil {
		p = map[string]any{"rope_type": "default"}
	}
	p["rope_theta"] = float(c.RopeTheta)
	return p
}

// ropeScaling returns the value of rope_scaling (transformers 4); nil, written as null, means none.
func (c *Config) ropeScaling() map[string]any {
	s := c.RopeScaling
	switch s.Type {
	case "linear":
		return map[string]any{"rope_type": s.Type, "factor": float(s.Factor)}
	case "llama3":
		return map[string]any{
			"rope_type": s.Type, "factor": float(s.Factor),
			"low_freq_factor": float(s.LowFreqFactor), "high_freq_factor": float(s.HighFreqFactor),
			"original_max_position_embeddings": s.OriginalMaxPositions,
		}
	}
	return nil
}

// float is a number that is written with a fraction or an exponent even if it is
// whole, because transformers warns about a rope factor that is an integer.
type float float64

// MarshalJSON implements json.Marshaler.
func (f float) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(f), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}
