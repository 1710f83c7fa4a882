package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

// GenerationConfig is the supported part of generation_config.json. Evaluation
// can use its sampling settings; training has separate settings. Other keys
// configure unsupported decoding methods and are ignored.
type GenerationConfig struct {
	BOSTokenID  *int32   `json:"bos_token_id"`
	PadTokenID  *int32   `json:"pad_token_id"`
	EOSTokenIDs tokenIDs `json:"eos_token_id"`
	DoSample    bool     `json:"do_sample"`
	Temperature float64  `json:"temperature"` // 1 if not given
	TopP        float64  `json:"top_p"`       // 1 if not given
	TopK        int      `json:"top_k"`       // 0, off, if not given
}

// ParseGenerationConfig reads a generation_config.json.
func ParseGenerationConfig(text []byte) (GenerationConfig, error) {
	g := GenerationConfig{Temperature: 1, TopP: 1}
	if err := json.Unmarshal(text, &g); err != nil {
		return GenerationConfig{}, fmt.Errorf("generation_config.json: %w", err)
	}
	return g, nil
}

// generationFromConfig returns transformers' defaults for a folder without
// generation_config.json.
func generationFromConfig(c Config) GenerationConfig {
	return GenerationConfig{BOSTokenID: c.BOSTokenID, PadTokenID: c.PadTokenID, EOSTokenIDs: slices.Clone(c.EOSTokenIDs), Temperature: 1, TopP: 1}
}

// JSON returns a generation_config.json.
func (g *GenerationConfig) JSON() ([]byte, error) {
	f := map[string]any{}
	put := func(key string, id *int32) {
		if id != nil {
			f[key] = *id
		}
	}
	put("bos_token_id", g.BOSTokenID)
	put("pad_token_id", g.PadTokenID)
	if len(g.EOSTokenIDs) > 0 {
		f["eos_token_id"] = g.EOSTokenIDs
	}
	if g.DoSample {
		f["do_sample"] = true
		f["temperature"], f["top_p"], f["top_k"] = g.Temperature, g.TopP, g.TopK
	}
	return indented(f)
}
