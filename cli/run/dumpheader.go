package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// recordedPlay holds the settings with which the episodes of a dump were played.
type recordedPlay struct {
	Config  configs.Config `json:"-"` // with one [[env]] table
	Episode *agent.Options `json:"episode"`
	Day     string         `json:"day"`
	Threads int            `json:"threads"` // 0 unless rollout.deterministic is set
}

// readRecorded reads the header of a dump of this version or an earlier one.
func readRecorded(h dump.Header) (recordedPlay, error) {
	var r recordedPlay
	var values map[string]json.RawMessage
	text, err := json.Marshal(h.Options)
	if err == nil {
		err = errors.Join(json.Unmarshal(text, &r), json.Unmarshal(text, &values))
	}
	if err == nil {
		r.Config, err = Schema.FromEpisodeValues(currentNames(values))
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("its header lacks the settings of the episodes: %w", err)
	case r.Episode == nil || r.Config.Env[0].Name == "":
		return r, errors.New("its header lacks the settings of the episodes, which only openmanus rollout --dump writes")
	case r.Episode.Validate() != nil:
		return r, fmt.Errorf("its header: %w", r.Episode.Validate())
	}
	if r.Config.Env[0].MaxTurns == 0 {
		r.Config.Env[0].MaxTurns = r.Episode.MaxTurns
	}
	return r, nil
}

// RecordedModel returns the path of the model that played a dump, or "" if the
// header of the dump has no path.
func RecordedModel(h dump.Header) string {
	played, err := readRecorded(h)
	if err != nil {
		return ""
	}
	return played.Config.Model.Path
}

// earlierNames maps the names of options in dumps of earlier versions to keys.
var earlierNames = map[string]string{
	"model": "model.path", "dtype": "model.compute_dtype",
	"env": "env.name", "tasks": "env.val_tasks", "skip_tasks": "env.skip_tasks", "max_turns": "env.max_turns", "format": "env.format",
	"history_length": "env.history_length", "use_summary": "env.use_summary", "memory_file": "env.memory_file", "parser": "env.parser",
	"action_format": "env.action_format", "max_obs_tokens": "agent.max_obs_tokens",
	"summary_base_url": "agent.summary.base_url", "summary_model": "agent.summary.model",
	"summary_max_tokens": "agent.summary.max_tokens", "summary_temperature": "agent.summary.temperature",
	"engine": "rollout.engine", "top_p": "rollout.top_p", "top_k": "rollout.top_k", "max_new_tokens": "rollout.max_new_tokens",
	"max_context_tokens": "rollout.max_context_tokens", "deterministic": "rollout.deterministic", "temperature": "rollout.val.temperature",
	"samples": "rollout.val.group_size", "base_url": "rollout.api.base_url", "api_model": "rollout.api.model", "seed": "trainer.seed",
}

// ofEarlierVersion reports whether a header has option names of earlierNames.
func ofEarlierVersion[V any](options map[string]V) bool {
	_, named := options["env"]
	return named
}

// currentNames renames options of an earlier version to keys.
func currentNames(options map[string]json.RawMessage) map[string]json.RawMessage {
	if !ofEarlierVersion(options) {
		return options
	}
	values := map[string]json.RawMessage{}
	for name, value := range options {
		key := earlierNames[name]
		switch {
		case name == "tasks", name == "skip_tasks":
			if string(value) == `""` {
				continue
			}
			value = slices.Concat([]byte("["), value, []byte("]"))
		case name == "temperature" && string(options["greedy"]) == "true":
			value = json.RawMessage("0")
		}
		values[key] = value
	}
	var episode agent.Options // earlier versions recorded some settings only here
	if json.Unmarshal(options["episode"], &episode) == nil {
		values["agent.max_parse_failures"] = fmt.Append(nil, episode.ParseLimit)
		values["env.final_ends"] = fmt.Append(nil, episode.FinalEnds)
	}
	return values
}

// headerOf returns the header of the dump at path, or the zero Header for a new
// or damaged file. dump.Continue reports the damage.
func headerOf(path string) dump.Header {
	r, err := dump.Open(path)
	if err != nil {
		return dump.Header{}
	}
	defer r.Close()
	return r.Header()
}

// headerToContinue compares the header of the dump at path (was) with the header
// of this command (now), and returns the header for the continued dump: the old header
// if an earlier version wrote the dump with equal settings, or else the new header.
func headerToContinue(path string, was, now dump.Header) (dump.Header, error) {
	if !ofEarlierVersion(was.Options) {
		return now, nil
	}
	played, err := readRecorded(was)
	if err != nil {
		return now, errext.With(errext.Input, "choose another file", fmt.Errorf("%s: %w", path, err))
	}
	same := dump.Header{Weights: was.Weights, Options: played.Config.EpisodeValues()}
	for name, value := range was.Options {
		if _, renamed := earlierNames[name]; !renamed && name != "greedy" {
			same.Options[name] = value
		}
	}
	if diff := same.Differences(now); len(diff) > 0 {
		return now, errext.With(errext.Input, "use the settings of the dump, or choose another file",
			fmt.Errorf("%s was started with other settings:\n  %s", path, strings.Join(diff, "\n  ")))
	}
	return dump.Header{Weights: was.Weights, Options: maps.Clone(was.Options)}, nil
}

// WritesDate reports whether a chat template writes the date into prompts.
func WritesDate(template string) bool { return strings.Contains(template, "strftime_now") }

// PromptDay returns the date that a dump or a checkpoint recorded, or else today,
// so that resumed and replayed episodes have the same prompts.
func PromptDay(h *Host, recorded string) time.Time {
	if day, err := time.Parse(time.DateOnly, recorded); err == nil {
		return day
	}
	return h.Now()
}

// DayOption is the option of a dump's header with the date of its prompts. It is
// absent if the chat template writes no date.
const DayOption = "day"
