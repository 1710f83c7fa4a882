package configs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Set stores a value of the key's Go type at a path such as "rollout.top_p" or
// "env.0.max_turns". In a list, a string becomes the only entry. Set panics if the
// path is unknown or the type differs.
func (c *Config) Set(path string, value any) {
	c.store(path, func(dst reflect.Value) {
		if text, ok := value.(string); ok && dst.Kind() == reflect.Slice {
			var list []string
			if text != "" {
				list = []string{text}
			}
			value = list
		}
		dst.Set(reflect.ValueOf(value))
	})
}

// Unmet returns the settings without which the key at path has no effect, or "" if
// it has an effect.
func (c *Config) Unmet(path string) string {
	i := 0
	if rest, ok := strings.CutPrefix(path, "env."); ok {
		index, _, _ := strings.Cut(rest, ".")
		i, _ = strconv.Atoi(index)
	}
	return strings.Join(c.Schema.byName[generic(path)].when.unmet(c, i), " and ")
}

// PlayFaults validates c for playing episodes, without the rules of training.
// rollout.max_context_tokens = 0 is allowed; it means the model's limit.
func (c *Config) PlayFaults() Faults {
	fs := slices.DeleteFunc(c.valueFaults(), func(f Fault) bool {
		return f.Key == "rollout.max_context_tokens" && c.Rollout.MaxContextTokens == 0
	})
	var across Faults
	c.checkAPI(&across)
	for i, e := range c.Env {
		if at := "env." + strconv.Itoa(i) + "."; c.checkKind(&across, at, e) {
			c.checkPlayed(&across, at, e)
		}
	}
	c.checkLaunch(&across)
	return fs.with(across)
}

// episodeKeys lists the keys that, with the weights, determine the episodes. The
// header of a dump holds their values.
var episodeKeys = slices.Concat([]string{
	"model.path", "model.chat_template", "model.chat_template_kwargs", "env.val_tasks", "env.skip_tasks", "env.memory_file", "agent.summary.base_url", "rollout.deterministic",
	"rollout.api.base_url", "rollout.api.model", "trainer.seed",
}, contractKeys)

// contractKeys lists the episodeKeys that must be equal in two compared results.
// The other episodeKeys identify the compared model, or name files that are compared by
// content.
var contractKeys = []string{
	"model.compute_dtype",
	"env.name", "env.kind", "env.success_reward", "env.deterministic", "env.cumulative",
	"env.score_fn", "env.score_params", "env.prompt_key", "env.answer_key", "env.source_key", "env.max_turns", "env.format", "env.history_length", "env.use_summary", "env.final_ends", "env.parser", "env.action_format",
	"agent.max_obs_tokens", "agent.max_parse_failures", "agent.summary.model", "agent.summary.max_tokens", "agent.summary.temperature",
	"rollout.engine", "rollout.weight_dtype", "rollout.top_p", "rollout.top_k", "rollout.max_new_tokens", "rollout.max_context_tokens",
	"rollout.val.temperature", "rollout.val.group_size",
}

// EpisodeValues returns the values of episodeKeys; keys of [[env]] have the value
// in the first table.
func (c *Config) EpisodeValues() map[string]any { return c.read(episodeKeys) }

// ContractValues returns the values of contractKeys: two evaluations are
// comparable only if these are equal.
func (c *Config) ContractValues() map[string]any { return c.read(contractKeys) }

// read returns the values of the keys that have an effect. Keys of the model have
// no effect if an endpoint generates the replies.
func (c *Config) read(keys []string) map[string]any {
	values := map[string]any{}
	for _, key := range keys {
		path := instance(key, 0)
		if slices.Contains([]string{"env.kind", "model.chat_template", "model.chat_template_kwargs"}, key) && c.field(path).Len() == 0 {
			continue // dumps and results of earlier versions lack these keys
		}
		if key == "rollout.weight_dtype" && c.Rollout.WeightDType != Int8 {
			continue // a missing key means "auto", as in dumps and results of earlier versions
		}
		if c.Unmet(path) != "" || c.Rollout.Engine == openai && strings.HasPrefix(key, "model.") {
			continue
		}
		values[key] = c.field(path).Interface()
	}
	return values
}

// FromEpisodeValues makes a configuration from EpisodeValues as JSON. It ignores
// names that are not in episodeKeys. Missing keys get their defaults.
func (s *Schema) FromEpisodeValues(values map[string]json.RawMessage) (Config, error) {
	c := s.Defaults()
	c.Env = []Env{s.DefaultEnv("")}
	for _, key := range episodeKeys {
		text, ok := values[key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(text, c.field(instance(key, 0)).Addr().Interface()); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, nil
}
