package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/torch/nn"
)

// goodLlama is a config.json as transformers 4 writes it.
const goodLlama = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":49152,"hidden_size":576,
"intermediate_size":1536,"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"max_position_embeddings":8192,
"rms_norm_eps":1e-05,"rope_theta":100000,"rope_scaling":null,"rope_interleaved":false,"hidden_act":"silu","attention_bias":false,
"torch_dtype":"bfloat16","tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2,"pad_token_id":2,"use_cache":true,
"transformers.js_config":{"kv_cache_dtype":{"q4f16":"float16"}},"is_llama_config":true,"pretraining_tp":1,"mlp_bias":false}`

const goodQwen2 = `{"model_type":"qwen2","vocab_size":1000,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":128,"rms_norm_eps":1e-06,"use_sliding_window":false,
"sliding_window":131072,"max_window_layers":28,"dtype":"bfloat16","rope_parameters":{"rope_theta":1000000.0,"rope_type":"default"},
"layer_types":["full_attention","full_attention"],"eos_token_id":[7,8]}`

const goodQwen3 = `{"model_type":"qwen3","vocab_size":1000,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":128}`

func TestParseConfig(t *testing.T) {
	one, two := int32(1), int32(2)
	tests := []struct {
		name, text string
		want       Config
	}{
		{"transformers 4", goodLlama, Config{
			ModelType: "llama", VocabSize: 49152, HiddenSize: 576, IntermediateSize: 1536, NumHiddenLayers: 30, NumAttentionHeads: 9,
			NumKeyValueHeads: 3, HeadDim: 64, MaxPositionEmbeddings: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
			InitializerRange: 0.02, DType: "bfloat16", BOSTokenID: &one, PadTokenID: &two, EOSTokenIDs: []int32{2},
		}},
		{"transformers 5", goodQwen2, Config{
			ModelType: "qwen2", VocabSize: 1000, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 4,
			NumKeyValueHeads: 2, HeadDim: 16, MaxPositionEmbeddings: 128, RMSNormEps: 1e-6, RopeTheta: 1e6,
			RopeScaling: nn.RoPEScaling{Type: "default"}, InitializerRange: 0.02, DType: "bfloat16", EOSTokenIDs: []int32{7, 8},
		}},
		{"qwen3's head_dim default", goodQwen3, Config{
			ModelType: "qwen3", VocabSize: 1000, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 4,
			NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 128, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02,
		}},
		{"reward model", edit(goodQwen3, `"model_type":"qwen3"`, `"model_type":"qwen3","architectures":["Qwen3ForSequenceClassification"],"id2label":{"0":"LABEL_0"}`), Config{
			ModelType: "qwen3", VocabSize: 1000, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 4,
			NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 128, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, Labels: 1,
		}},
		{"classifier of two labels without names", edit(goodQwen3, `"model_type":"qwen3"`, `"model_type":"qwen3","architectures":["Qwen3ForSequenceClassification"]`), Config{
			ModelType: "qwen3", VocabSize: 1000, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 4,
			NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 128, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, Labels: 2,
		}},
		{"llama3 scaling", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"rope_type":"llama3","type":"llama3","factor":32.0,
			"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`), Config{
			ModelType: "llama", VocabSize: 49152, HiddenSize: 576, IntermediateSize: 1536, NumHiddenLayers: 30, NumAttentionHeads: 9,
			NumKeyValueHeads: 3, HeadDim: 64, MaxPositionEmbeddings: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
			RopeScaling:      nn.RoPEScaling{Type: "llama3", Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192},
			InitializerRange: 0.02, DType: "bfloat16", BOSTokenID: &one, PadTokenID: &two, EOSTokenIDs: []int32{2},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseConfig([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			b, err := got.JSON("float32")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), `"rope_theta": 100000,`) {
				t.Errorf("rope_theta is written as an integer:\n%s", b)
			}
			reparsed, err := ParseConfig(b)
			if err != nil {
				t.Fatalf("the written text cannot be read: %v\n%s", err, b)
			}
			got.DType = "float32"
			if got.RopeScaling.Type == "" {
				got.RopeScaling.Type = "default"
			}
			if d := cmp.Diff(got, reparsed); d != "" {
				t.Errorf("the configuration changed in a write and a read (-want +got)\n%s", d)
			}
		})
	}
}

func edit(text, old, replacement string) string {
	if !strings.Contains(text, old) {
		panic("the text has no " + old)
	}
	return strings.Replace(text, old, replacement, 1)
}

func TestParseConfigRefuses(t *testing.T) {
	add := func(text string) string { return edit(goodLlama, `"use_cache":true`, text) }
	tests := []struct{ name, text, want string }{
		{"not JSON", `{`, "unexpected end"},
		{"no model_type", `{}`, "model_type is missing"},
		{"unknown type", edit(goodLlama, `"model_type":"llama"`, `"model_type":"mamba"`), `"mamba" is not supported (llama`},
		{"token classifier", edit(goodLlama, "LlamaForCausalLM", "LlamaForTokenClassification"), "only LlamaForCausalLM and LlamaForSequenceClassification are"},
		{"huge classifier", edit(goodLlama, `ForCausalLM"],`, `ForSequenceClassification"],"num_labels":99999999,`), "num_labels is 99999999"},
		{"missing size", edit(goodLlama, `"hidden_size":576,`, ""), "hidden_size is missing"},
		{"wrong kind", edit(goodLlama, `"hidden_size":576`, `"hidden_size":"576"`), "hidden_size: json"},
		{"heads do not divide", edit(goodLlama, `"num_key_value_heads":3`, `"num_key_value_heads":2`), "not a multiple of num_key_value_heads 2"},
		{"width does not divide", edit(goodLlama, `"hidden_size":576`, `"hidden_size":577`), "not a multiple of num_attention_heads"},
		{"huge size", edit(goodLlama, `"vocab_size":49152`, `"vocab_size":99999999`), "vocab_size is 99999999"},
		{"negative layers", edit(goodLlama, `"num_hidden_layers":30`, `"num_hidden_layers":-1`), "num_hidden_layers is -1"},
		{"gelu", edit(goodLlama, `"hidden_act":"silu"`, `"hidden_act":"gelu"`), `hidden_act is "gelu"`},
		{"attention bias", edit(goodLlama, `"attention_bias":false`, `"attention_bias":true`), "attention_bias is true"},
		{"mlp bias", edit(goodLlama, `"mlp_bias":false`, `"mlp_bias":true`), "mlp_bias is true"},
		{"quantized", add(`"quantization_config":{"bits":4}`), "quantization_config"},
		{"partial rotary", add(`"partial_rotary_factor":0.5`), "partial_rotary_factor is 0.5"},
		{"unknown key", add(`"attn_logit_softcapping":50.0`), `"attn_logit_softcapping" is not known`},
		{"sliding window of llama", add(`"sliding_window":4096`), "sliding_window is 4096"},
		{"sliding window in use", edit(goodQwen2, `"use_sliding_window":false`, `"use_sliding_window":true`), "use_sliding_window is true"},
		{"sliding layer", edit(goodQwen2, `"full_attention"]`, `"sliding_attention"]`), `layer 1 is "sliding_attention"`},
		{"layer types too few", edit(goodQwen2, `,"full_attention"]`, `]`), "layer_types has 1 entries for 2 layers"},
		{"yarn", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"type":"yarn","factor":4.0}`), `rope_type "yarn" is not supported`},
		{"rope key", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"type":"linear","factor":4.0,"beta":1}`), `key "beta"`},
		{"llama3 incomplete", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"rope_type":"llama3","factor":4.0}`), "low_freq_factor is missing"},
		{"two thetas", edit(goodLlama, `"rope_scaling":null`, `"rope_parameters":{"rope_type":"default","rope_theta":5.0}`), "rope_theta is 5 here and 100000 at the top"},
		{"two layouts that differ", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"type":"linear","factor":2.0},"rope_parameters":{"rope_type":"default"}`), "rope_scaling and rope_parameters differ"},
		{"two thetas in two layouts", edit(goodQwen2, `"rope_parameters"`, `"rope_scaling":{"type":"default"},"rope_parameters"`), "rope_scaling and rope_parameters differ"},
		{"two dtypes", add(`"dtype":"float32"`), `torch_dtype is "bfloat16" and dtype is "float32"`},
		{"special token outside the vocabulary", edit(goodLlama, `"eos_token_id":2`, `"eos_token_id":[49152]`), "special token id 49152"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseConfig([]byte(tt.text))
			if err == nil {
				t.Fatalf("ParseConfig: no error, got %+v", c)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
		})
	}
}

// TestBothLayouts checks that WriteJSON writes all keys of transformers 4 and of
// transformers 5, which read different keys.
func TestBothLayouts(t *testing.T) {
	llama3 := `{"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`
	for _, tt := range []struct{ name, text string }{
		{"plain", goodLlama},
		{"linear", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":{"type":"linear","factor":4}`)},
		{"llama3", edit(goodLlama, `"rope_scaling":null`, `"rope_scaling":`+llama3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := ParseConfig([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if want.RopeScaling.Type == "" {
				want.RopeScaling.Type = "default"
			}
			b, err := want.JSON(want.DType)
			if err != nil {
				t.Fatal(err)
			}
			for layout, drop := range map[string][]string{
				"transformers 4": {"dtype", "rope_parameters"},
				"transformers 5": {"torch_dtype", "rope_theta", "rope_scaling"},
			} {
				var keys map[string]any
				if err := json.Unmarshal(b, &keys); err != nil {
					t.Fatal(err)
				}
				for _, k := range drop {
					if _, there := keys[k]; !there {
						t.Errorf("%s is not written", k)
					}
					delete(keys, k)
				}
				text, err := json.Marshal(keys)
				if err != nil {
					t.Fatal(err)
				}
				got, err := ParseConfig(text)
				if err != nil {
					t.Fatal(err)
				}
				if got.RopeScaling.Type == "" {
					got.RopeScaling.Type = "default"
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s reads (-want +got)\n%s", layout, d)
				}
			}
		})
	}
}

// TestLayoutsAgree checks that both layouts of transformers give the same configuration.
func TestLayoutsAgree(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "llama-tied", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	current := edit(string(text), `"rope_theta": 500000.0,`, "")
	current = edit(current, `"rope_scaling": {`, `"rope_parameters": {"rope_theta": 500000.0,`)
	current = edit(current, `"torch_dtype"`, `"dtype"`)
	got, err := ParseConfig([]byte(current))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(old, got); d != "" {
		t.Errorf("transformers 4 and 5 differ (-4 +5)\n%s", d)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{goodLlama, goodQwen2, goodQwen3, `{"model_type":"llama"}`, `[]`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("ParseConfig accepts a configuration that is not valid: %v", err)
		}
		b, err := c.JSON("float32")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseConfig(b); err != nil {
			t.Fatalf("the written text cannot be read: %v\n%s", err, b)
		}
	})
}
