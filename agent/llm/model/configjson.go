package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ignoredKeys are keys of config.json that do not change the result of the
// decoder: bookkeeping, training-time settings, other kinds of heads, and
// generation settings of older releases. A key that is neither read nor listed
// is an error, since it may change the arithmetic.
var ignoredKeys = []string{
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

// fixedKeys lists the supported values of some keys. Other values of these keys need arithmetic that
// is not implemented. A family that implements the arithmetic reads the key as an Extra setting.
var fixedKeys = map[string][]string{
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
	"sliding_window":              {"null"},
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

// configReader reads keys of a JSON object and remembers which it has read.
type configReader struct {
	raw  map[string]json.RawMessage
	seen map[string]bool
	errs []error
}

// get decodes a key into v and reports whether the key is present and not null.
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

// must decodes a required key into v; a missing key is an error.
func (r *configReader) must(key string, v any) {
	if n := len(r.errs); !r.get(key, v) && len(r.errs) == n {
		r.errs = append(r.errs, fmt.Errorf("%s is missing", key))
	}
}

func (r *configReader) config() Config {
	// Defaults of transformers' configuration classes. Sizes have no
	// default, because a checkpoint always states them.
	c := Config{RMSNormEps: 1e-6, InitializerRange: 0.02}
	r.must("model_type", &c.ModelType)
	f, err := lookupFamily(c.ModelType)
	if err != nil {
		r.errs = append(r.errs, err)
		return c
	}
	c.Extra = f.newExtra()
	r.architectures(&c, f)
	for _, s := range c.settings() {
		r.get(s.Key, s.Field)
	}
	if f.defaults != nil {
		f.defaults(&c)
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
		if c.HiddenSize%c.NumAttentionHeads != 0 {
			r.errs = append(r.errs, fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d and head_dim is not given", c.HiddenSize, c.NumAttentionHeads))
		}
	}
	for _, s := range c.settings() {
		if v, ok := s.Field.(*int); ok && *v == 0 && len(r.raw[s.Key]) == 0 {
			r.errs = append(r.errs, fmt.Errorf("%s is missing", s.Key))
		}
	}
	r.dtype(&c)
	r.rope(&c)
	r.layers(c)
	r.specials(&c)
	for _, key := range f.ignored {
		r.seen[key] = true
	}
	return c
}

// dtype reads torch_dtype (transformers 4) and dtype (transformers 5).
func (r *configReader) dtype(c *Config) {
	r.get("torch_dtype", &c.DType)
	if current := ""; r.get("dtype", &current) {
		if c.DType != "" && c.DType != current {
			r.errs = append(r.errs, fmt.Errorf("torch_dtype is %.80q and dtype is %.80q: keep the right one", c.DType, current))
		}
		c.DType = current
	}
}

// architectures accepts two classes of a model_type: the causal language model
// and the sequence classifier, which has another head.
func (r *configReader) architectures(c *Config, f family) {
	var names []string
	if !r.get("architectures", &names) || len(names) == 0 {
		return
	}
	switch {
	case slices.Contains(names, f.class):
	case slices.Contains(names, f.classifier()):
		c.Labels = r.labels()
	default:
		r.errs = append(r.errs, fmt.Errorf("architectures is %q; for model_type %s only %s and %s are supported", names, c.ModelType, f.class, f.classifier()))
	}
}

// labels returns the number of outputs of a classifier; transformers' default
// is two.
func (r *configReader) labels() int {
	var names map[string]any
	if r.get("id2label", &names) {
		return len(names)
	}
	n := 2
	r.get("num_labels", &n)
	return n
}

// layers accepts layer_types of full attention only. A family with other kinds of
// attention reads the key as one of its Extra settings.
func (r *configReader) layers(c Config) {
	var types []string
	if r.seen["layer_types"] || !r.get("layer_types", &types) {
		return
	}
	if i := slices.IndexFunc(types, func(t string) bool { return t != "full_attention" }); i >= 0 {
		r.errs = append(r.errs, fmt.Errorf("layer_types: layer %d is %q, only full_attention is supported", i, types[i]))
	}
	if len(types) != c.NumHiddenLayers {
		r.errs = append(r.errs, fmt.Errorf("layer_types has %d entries for %d layers", len(types), c.NumHiddenLayers))
	}
}

// rope reads rope_theta and rope_scaling (transformers 4) and rope_parameters
// (transformers 5). A file may have both layouts if they agree.
func (r *configReader) rope(c *Config) {
	c.RopeTheta = 10000
	top := r.get("rope_theta", &c.RopeTheta)
	var old, current map[string]json.RawMessage
	second := *c
	hasOld := r.get("rope_scaling", &old) && r.ropeObject("rope_scaling", old, c, top)
	if r.get("rope_parameters", &current) && r.ropeObject("rope_parameters", current, &second, top) {
		if hasOld && (second.RopeScaling != c.RopeScaling || second.RopeTheta != c.RopeTheta) {
			r.errs = append(r.errs, errors.New("rope_scaling and rope_parameters differ: keep the right one"))
		}
		c.RopeScaling, c.RopeTheta = second.RopeScaling, second.RopeTheta
	}
}

// ropeObject reads rope_scaling or rope_parameters into c and reports whether the JSON object is valid.
func (r *configReader) ropeObject(key string, raw map[string]json.RawMessage, c *Config, haveTheta bool) bool {
	o := &configReader{raw: raw, seen: map[string]bool{}}
	s := &c.RopeScaling
	if !o.get("rope_type", &s.Type) {
		o.get("type", &s.Type)
	}
	o.seen["type"] = true // some releases write both keys
	theta := c.RopeTheta
	if o.get("rope_theta", &theta) {
		if haveTheta && theta != c.RopeTheta {
			o.errs = append(o.errs, fmt.Errorf("rope_theta is %v here and %v at the top level", theta, c.RopeTheta))
		}
		c.RopeTheta = theta
	}
	switch s.Type {
	case "linear":
		o.must("factor", &s.Factor)
	case "llama3":
		o.must("factor", &s.Factor)
		o.must("low_freq_factor", &s.LowFreqFactor)
		o.must("high_freq_factor", &s.HighFreqFactor)
		o.must("original_max_position_embeddings", &s.OriginalMaxPositions)
	case "default":
	default:
		r.errs = append(r.errs, fmt.Errorf("%s: rope_type %q is not supported (default, linear and llama3 are)", key, s.Type))
		return false
	}
	if factor := 1.0; o.get("partial_rotary_factor", &factor) && factor != 1 {
		o.errs = append(o.errs, fmt.Errorf("partial_rotary_factor %v is not supported", factor))
	}
	for k := range raw {
		if !o.seen[k] {
			o.errs = append(o.errs, fmt.Errorf("key %q is not known with rope_type %s", k, s.Type))
		}
	}
	for _, err := range o.errs {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", key, err))
	}
	return len(o.errs) == 0
}

func (r *configReader) specials(c *Config) {
	r.get("bos_token_id", &c.BOSTokenID)
	if c.PadTokenID = new(int32); !r.get("pad_token_id", c.PadTokenID) || *c.PadTokenID < 0 {
		c.PadTokenID = nil // some releases write "none" as -1
	}
	r.get("eos_token_id", &c.EOSTokenIDs)
}

// tokenIDs is an id or a list of ids in JSON.
type tokenIDs []int32

// UnmarshalJSON implements json.Unmarshaler.
func (t *tokenIDs) UnmarshalJSON(text []byte) error {
	var one *int32
	if err := json.Unmarshal(text, &one); err == nil {
		*t = ids(one)
		return nil
	}
	if err := json.Unmarshal(text, (*[]int32)(t)); err != nil {
		return fmt.Errorf("want a token id or a list of token ids: %w", err)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (t tokenIDs) MarshalJSON() ([]byte, error) {
	switch len(t) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(t[0])
	}
	return json.Marshal([]int32(t))
}

// checkRest reports unread keys that may change the arithmetic.
func (r *configReader) checkRest(c Config) {
	if _, err := lookupFamily(c.ModelType); err != nil {
		return // the error about model_type is enough
	}
	for _, k := range slices.Sorted(maps.Keys(r.raw)) {
		want, fixed := fixedKeys[k]
		switch got := compact(r.raw[k]); {
		case r.seen[k], slices.Contains(want, got):
		case fixed:
			r.errs = append(r.errs, fmt.Errorf("%s is %.80s, supported is %s", k, got, strings.Join(want, " or ")))
		case !slices.Contains(ignoredKeys, k):
			r.errs = append(r.errs, fmt.Errorf("key %.80q is not known and may change the results of the model; remove it if it has no effect", k))
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
