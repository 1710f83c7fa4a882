package configs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Set stores a value, of the key's own Go type, at the path of a key such as
// "rollout.top_p" or "env.0.max_turns". An unknown path or another type is a
// programmer's error and panics.
func (c *Config) Set(path string, value any) {
	field(c, path).Set(reflect.ValueOf(value))
}

// Unmet returns the settings that have to change before anything reads the key
// at path, "" if it is read.
func (c *Config) Unmet(path string) string {
	i := 0
	if rest, ok := strings.CutPrefix(path, "env."); ok {
		index, _, _ := strings.Cut(rest, ".")
		i, _ = strconv.Atoi(index)
	}
	return strings.Join(usesOf[generic(path)].unmet(c, i), " and ")
}

// PlayFaults returns what is wrong with c for playing episodes, without the
// rules of training. Here rollout.max_context_tokens = 0 stands for the
// model's own limit.
func (c *Config) PlayFaults() Faults {
	fs := slices.DeleteFunc(c.valueFaults(), func(f Fault) bool {
		return f.Key == "rollout.max_context_tokens" && c.Rollout.MaxContextTokens == 0
	})
	var across Faults
	c.checkAPI(&across)
	for i, e := range c.Env {
		c.checkPlayed(&across, "env."+strconv.Itoa(i)+".", e)
	}
	c.checkLaunch(&across)
	for _, f := range across {
		if !fs.about(f.Key) {
			fs = append(fs, f)
		}
	}
	return fs
}

// episodeKeys decide, together with the weights, which episodes are played.
// The header of a dump holds their values.
var episodeKeys = []string{
	"model.path", "model.compute_dtype",
	"env.name", "env.val_tasks", "env.skip_tasks", "env.max_turns", "env.format", "env.history_length", "env.use_summary", "env.memory_file",
	"env.final_ends", "env.parser", "env.action_format",
	"agent.max_obs_tokens", "agent.max_parse_failures",
	"agent.summary.base_url", "agent.summary.model", "agent.summary.max_tokens", "agent.summary.temperature",
	"rollout.engine", "rollout.top_p", "rollout.top_k", "rollout.max_new_tokens", "rollout.max_context_tokens", "rollout.deterministic",
	"rollout.val.temperature", "rollout.val.group_size", "rollout.api.base_url", "rollout.api.model",
	"trainer.seed",
}

// EpisodeValues returns the values of the keys that decide the episodes of the
// first environment. Keys that nothing reads are left out; an endpoint has a
// model of its own.
func (c *Config) EpisodeValues() map[string]any {
	values := map[string]any{}
	for _, key := range episodeKeys {
		path := instance(key, 0)
		if c.Unmet(path) != "" || c.Rollout.Engine == openai && strings.HasPrefix(key, "model.") {
			continue
		}
		values[key] = field(c, path).Interface()
	}
	return values
}

// FromEpisodeValues is the inverse of EpisodeValues, of values as JSON. Other
// names in values are ignored; keys without a value have their defaults.
func FromEpisodeValues(values map[string]json.RawMessage) (Config, error) {
	c := Defaults()
	c.Env = []Env{DefaultEnv("")}
	for _, key := range episodeKeys {
		text, ok := values[key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(text, field(&c, instance(key, 0)).Addr().Interface()); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, nil
}
