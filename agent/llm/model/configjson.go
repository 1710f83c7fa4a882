package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// harmless are keys of config.json that change nothing that is computed here:
// bookkeeping, training-time settings, other kinds of heads, generation
// settings that older releases kept here. A key that is neither read nor
// listed is an error, since it may change the arithmetic.
var harmless = []string{
	"architectures", "_name_or_path", "transformers_version", "transformers.js_config", "use_cache", "return_dict",
	"output_hidden_states", "output_attentions", "torchscript", "attn_implementation", "_attn_implementation",
	"_attn_implementation_autoset", "chunk_size_feed_forward", "id2label", "label2id", "problem_type", "finetuning_task",
	"task_specific_params", "tokenizer_class", "prefix", "pretraining_tp", "is_llama_config",
	"attention_dropout", "max_window_layers", "sep_token_id", "decoder_start_token_id", "bad_words_ids", "unsloth_version",
	"unsloth_fixed", "auto_map", "num_labels", "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
	"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
	"num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id",
	"remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
	"num_beam_groups", "diversity_penalty", "encoder_no_repeat_ngram_size",
}

// fixed are keys that are understood with one value only: any other would need
// arithmetic that is not here.
var fixed = map[string][]string{
	"hidden_act":                  {`"silu"`, `"swish"`},
	"attention_bias":              {"false"},
	"mlp_bias":                    {"false"},
	"partial_rotary_factor":       {"1", "1.0", "null"},
	"quantization_config":         {"null"},
	"compression_config":          {"null"},
	"is_encoder_decoder":          {"false"},
	"is_decoder":                  {"false", "true"},
	"add_cross_attention":         {"false"},
	"cross_attention_hidden_size": {"null"},
	"tie_encoder_decoder":         {"false"},
	"use_sliding_window":          {"false"},
	"use_bfloat16":                {"false"},
	"pruned_heads":                {"{}"},
	"no_rope_layers":              {"null"},
	"rope_interleaved":            {"false"},
	"use_mrope":                   {"false"},
}

// ParseConfig reads a config.json as transformers 4 or 5 writes it.
func ParseConfig(text []byte) (Config, error) {
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	r := &configReader{raw: raw, seen: map[string]bool{}}
	c := r.config()
	r.checkRest(c)
	if err := errors.Join(r.errs...); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	return c, nil
}

// configReader takes keys out of the JSON object and remembers which it took.
type configReader struct {
	raw  map[string]json.RawMessage
	seen map[string]bool
	errs []error
}

// get decodes a key into v and reports whether the key is there and not null.
func (r *configReader) get(key string, v any) bool {
	r.seen[key] = true
	text, ok := r.raw[key]
	if !ok || string(text) == "null" {
		return false
	}
	if err := json.Unmarshal(text, v); err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", key, err))
		return false
	}
	return true
}

// must is get for a key that has no default.
func (r *configReader) must(key string, v any) {
	if n := len(r.errs); !r.get(key, v) && len(r.errs) == n {
		r.errs = append(r.errs, fmt.Errorf("%s is missing", key))
	}
}

func (r *configReader) config() Config {
	// The defaults are those of transformers' configuration classes; sizes
	// have none, because a checkpoint always states them.
	c := Config{RMSNormEps: 1e-6, InitializerRange: 0.02}
	r.must("model_type", &c.ModelType)
	if !known(c.ModelType) {
		r.errs = append(r.errs, unknownModelType(c.ModelType))
		return c
	}
	r.architectures(&c)
	r.must("vocab_size", &c.VocabSize)
	r.must("hidden_size", &c.HiddenSize)
	r.must("intermediate_size", &c.IntermediateSize)
	r.must("num_hidden_layers", &c.NumHiddenLayers)
	r.must("num_attention_heads", &c.NumAttentionHeads)
	r.must("max_position_embeddings", &c.MaxPositionEmbeddings)
	if c.ModelType == "llama" { // the first checkpoints have no grouped heads
		c.NumKeyValueHeads = c.NumAttentionHeads
		r.get("num_key_value_heads", &c.NumKeyValueHeads)
	} else {
		r.must("num_key_value_heads", &c.NumKeyValueHeads)
	}
	if !r.get("head_dim", &c.HeadDim) && c.NumAttentionHeads > 0 {
		if c.HeadDim = familyOf(c.ModelType).headDim; c.HeadDim == 0 {
			c.HeadDim = c.HiddenSize / c.NumAttentionHeads
			if c.HiddenSize%c.NumAttentionHeads != 0 {
				r.errs = append(r.errs, fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d and head_dim is not given", c.HiddenSize, c.NumAttentionHeads))
			}
		}
	}
	r.get("rms_norm_eps", &c.RMSNormEps)
	r.get("initializer_range", &c.InitializerRange)
	r.get("tie_word_embeddings", &c.TieWordEmbeddings)
	r.dtype(&c)
	r.rope(&c)
	r.layers(c)
	r.specials(&c)
	return c
}

// dtype reads torch_dtype (transformers 4) and dtype (transformers 5).
func (r *configReader) dtype(c *Config) {
	r.get("torch_dtype", &c.DType)
	if current := ""; r.get("dtype", &current) {
		if c.DType != "" && c.DType != current {
			r.errs = append(r.errs, fmt.Errorf("torch_dtype is %q and dtype is %q: keep the one that is right", clip(c.DType), clip(current)))
		}
		c.DType = current
	}
}

// architectures accepts the causal language model of the type and its sequence
// classifier, which has the same model_type and another head.
func (r *configReader) architectures(c *Config) {
	var names []string
	if !r.get("architectures", &names) || len(names) == 0 {
		return
	}
	switch f := familyOf(c.ModelType); {
	case slices.Contains(names, f.architecture):
	case slices.Contains(names, f.classifier()):
		c.Labels = r.labels()
	default:
		r.errs = append(r.errs, fmt.Errorf("architectures is %q; for model_type %s only %s and %s are supported", names, c.ModelType, f.architecture, f.classifier()))
	}
}

// labels is the number of outputs of a classifier: two where its file does not
// say, as transformers has it.
func (r *configReader) labels() int {
	var names map[string]any
	if r.get("id2label", &names) {
		return len(names)
	}
	n := 2
	r.get("num_labels", &n)
	return n
}

func (r *configReader) fold(key string, o *configReader) {
	for _, err := range o.errs {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", key, err))
	}
}

// layers refuses sliding windows that are in use. Qwen2 configurations carry a
// sliding_window that only use_sliding_window or layer_types switch on.
func (r *configReader) layers(c Config) {
	var types []string
	if r.get("layer_types", &types) {
		for i, t := range types {
			if t != "full_attention" {
				r.errs = append(r.errs, fmt.Errorf("layer_types: layer %d is %q, only full_attention is supported", i, t))
				break
			}
		}
		if len(types) != c.NumHiddenLayers {
			r.errs = append(r.errs, fmt.Errorf("layer_types has %d entries for %d layers", len(types), c.NumHiddenLayers))
		}
	}
	window := 0
	if r.get("sliding_window", &window) && !familyOf(c.ModelType).idleWindow {
		r.errs = append(r.errs, fmt.Errorf("sliding_window %d is not supported", window))
	}
}

func (r *configReader) specials(c *Config) {
	r.get("bos_token_id", &c.BOSTokenID)
	if c.PadTokenID = new(int32); !r.get("pad_token_id", c.PadTokenID) || *c.PadTokenID < 0 {
		c.PadTokenID = nil // -1 is how some releases write "none"
	}
	var eos json.RawMessage
	if r.get("eos_token_id", &eos) {
		list, err := tokenIDs(eos)
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("eos_token_id: %w", err))
		}
		c.EOSTokenIDs = list
	}
}

// tokenIDs decodes an id or a list of ids.
func tokenIDs(raw json.RawMessage) ([]int32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one int32
	if err := json.Unmarshal(raw, &one); err == nil {
		return []int32{one}, nil
	}
	var list []int32
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("want an id or a list of ids: %w", err)
	}
	return list, nil
}

// checkRest goes through the keys that nothing has read.
func (r *configReader) checkRest(c Config) {
	if !known(c.ModelType) {
		return // one clear error is enough
	}
	keys := make([]string, 0, len(r.raw))
	for k := range r.raw {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if r.seen[k] {
			continue
		}
		if want, ok := fixed[k]; ok {
			if got := compact(r.raw[k]); !slices.Contains(want, got) {
				r.errs = append(r.errs, fmt.Errorf("%s is %s, supported is %s", k, clip(got), strings.Join(want, " or ")))
			}
			continue
		}
		if !slices.Contains(harmless, k) {
			r.errs = append(r.errs, fmt.Errorf("key %q is not known, so the model may compute something else; remove it if it does not", clip(k)))
		}
	}
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
