package hydra

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
)

// verl's trainer has no environment: its tasks are rows with a prompt and a ground
// truth, scored by the function of the row's data source. Such a command line becomes
// an [[env]] table of prompt tasks.
//
// Source: verl's RLHFDataset and default_compute_score.

// ofRows reports whether the command line names data files and no environment.
func (im *importer) ofRows() bool {
	named := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			_, ok := im.given[key]
			return ok
		})
	}
	return named("data.train_files", "data.val_files") && !named("data.env_name", "env.env_name")
}

// onPrompts reports whether the command line trains on prompt tasks.
func (im *importer) onPrompts() bool { return im.of == verl && im.ofRows() }

// prompts makes the [[env]] table of prompt tasks. Its name is the folder of the first
// data file.
func (im *importer) prompts() {
	if !im.onPrompts() {
		return
	}
	file := ""
	for _, key := range []string{"data.train_files", "data.val_files"} {
		if list := asList(im.val(key, "")); file == "" && len(list) > 0 {
			file = plain(list[0])
		}
	}
	name := path.Base(path.Dir(file))
	if configs.EnvironmentName(name) != "" || im.schema.CheckValue("env.label", name) != "" || im.schema.IsEnvironment(name) {
		name = "prompts"
	}
	r := cmp.Or(im.byKey["data.train_files"], im.byKey["data.val_files"])
	im.put(r, "env.name", name)
	im.put(r, "env.kind", configs.KindPrompt)
	r.addNote("the rows are prompt tasks, scored by the function of their data_source (env.score_fn)")
}

// promptKey maps the column of the prompts, which is fixed in rows of an environment.
func promptKey(im *importer, r *Row, v any) any {
	if !im.onPrompts() {
		return v
	}
	if v == "prompt" {
		r.ignored("the default")
		return nil
	}
	return several{{"env.prompt_key", v}}
}

// manyTurns maps the switch of episodes with several turns, which prompt tasks do not have.
func manyTurns(im *importer, r *Row, v any) any {
	if r.ignored("every episode has up to agent.max_turns turns"); v == true && im.onPrompts() {
		r.unsupported("a prompt task has one turn; name an environment with its server in [[env]]")
	}
	return nil
}

// ofPrompts maps a key of prompt tasks.
func ofPrompts(im *importer, r *Row, v any) any {
	if !im.onPrompts() {
		r.ignored("the environment gives the reward")
		return nil
	}
	return v
}

// templateVariables sets the variables of the chat template, which the command line
// gives as one mapping or as separate keys.
func (im *importer) templateVariables() {
	const at = "data.apply_chat_template_kwargs"
	vars := map[string]any{}
	var from *Row
	add := func(r *Row, name string, v any) {
		text, ok := v.(string)
		if !ok {
			b, err := json.Marshal(v)
			if err != nil {
				r.unsupported("it is not a value of JSON")
				return
			}
			text = string(b)
		}
		vars[name], from = text, r
	}
	for _, key := range im.order {
		r := im.byKey[key]
		if r == nil || r.Status != Mapped {
			continue
		}
		if name, ok := strings.CutPrefix(key, at+"."); ok {
			add(r, name, im.val(key, nil))
		}
		if key == at {
			all, ok := im.val(key, map[string]any{}).(map[string]any)
			if !ok {
				r.unsupported("it is not a mapping of variables")
				continue
			}
			for name, v := range all {
				add(r, name, v)
			}
			if len(all) == 0 {
				r.ignored("no variables, the default")
			}
		}
	}
	if from != nil {
		im.put(from, "model.chat_template_kwargs", vars)
	}
}
