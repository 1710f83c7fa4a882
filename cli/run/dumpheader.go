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

// RecordedPlay is how the episodes of a dump were played.
type RecordedPlay struct {
	Config  configs.Config `json:"-"` // with one [[env]] table
	Episode *agent.Options `json:"episode"`
	Day     string         `json:"day"`
	Threads int            `json:"threads"` // 0 unless deterministic
}

// ReadRecordedPlay reads the header of a dump, of this or of an earlier version.
func ReadRecordedPlay(h dump.Header) (RecordedPlay, error) {
	var r RecordedPlay
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
		return r, fmt.Errorf("its header does not say how it was played: %w", err)
	case r.Episode == nil || r.Config.Env[0].Name == "":
		return r, errors.New("its header does not say how it was played: only dumps of openmanus rollout --dump do")
	case r.Episode.Validate() != nil:
		return r, fmt.Errorf("its header: %w", r.Episode.Validate())
	}
	if r.Config.Env[0].MaxTurns == 0 {
		r.Config.Env[0].MaxTurns = r.Episode.MaxTurns
	}
	return r, nil
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

// ofEarlierVersion reports whether the options of a header have earlierNames.
func ofEarlierVersion[V any](options map[string]V) bool {
	_, named := options["env"]
	return named
}

// currentNames returns options of an earlier version under their keys, and
// others as they are.
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
	var episode agent.Options // has what no option of its own did
	if json.Unmarshal(options["episode"], &episode) == nil {
		values["agent.max_parse_failures"] = fmt.Append(nil, episode.ParseLimit)
		values["env.final_ends"] = fmt.Append(nil, episode.FinalEnds)
	}
	return values
}

// HeaderToContinue returns the header with which the dump at path is
// continued: now, or that of an earlier version if it stands for the same.
func HeaderToContinue(h *Host, path string, now dump.Header) (dump.Header, error) {
	r, err := dump.Open(h.Path(path))
	if err != nil { // a new or torn file, which ContinueDump reports
		return now, nil
	}
	defer r.Close()
	was := r.Header()
	if !ofEarlierVersion(was.Options) {
		return now, nil
	}
	played, err := ReadRecordedPlay(was)
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
		return now, errext.With(errext.Input, "play as it was begun, or choose another file",
			fmt.Errorf("%s was begun with other settings:\n  %s", path, strings.Join(diff, "\n  ")))
	}
	return dump.Header{Weights: was.Weights, Options: maps.Clone(was.Options)}, nil
}

// WritesDate reports whether a chat template writes the day into prompts.
func WritesDate(template string) bool { return strings.Contains(template, "strftime_now") }

// PromptDay is the day that a dump or a checkpoint recorded, else today: what was
// begun on another day goes on, and is played again, with the same prompts.
func PromptDay(h *Host, recorded string) time.Time {
	if day, err := time.Parse(time.DateOnly, recorded); err == nil {
		return day
	}
	return h.Now()
}

// DumpDay is what the header of the dump at path has recorded as its day; ""
// where it says none or cannot be read.
func DumpDay(path string) string {
	r, err := dump.Open(path)
	if err != nil {
		return ""
	}
	defer r.Close()
	day, _ := r.Header().Options[DayOption].(string)
	return day
}

// DayOption is the option of a dump's header that holds the day of its prompts,
// where the chat template writes it into them.
const DayOption = "day"
