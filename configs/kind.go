package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/openmanus/openmanus/data/registry"
)

// The kinds of environments that the registry does not know.
const (
	KindAgentGym = "agentgym" // servers of a user's own with AgentGym's protocol
	KindPrompt   = "prompt"   // tasks of one prompt and one reply, without a server
)

// environmentName allows the names of environments, which are part of the names of
// metrics, files and tasks.
var environmentName = text("letters, digits, _ and -", func(name string) string {
	if name == "" || componentName(name) == "" {
		return ""
	}
	return describe(name) + " is not allowed: a name consists of letters, digits, _ and -"
})

// ResolveKinds sets the kind of the [[env]] tables that describe servers of a user's
// own without stating the kind.
func (c *Config) ResolveKinds() {
	for i := range c.Env {
		if e := &c.Env[i]; e.Kind == "" && c.own(e) {
			e.Kind = KindAgentGym
		}
	}
}

// IsEnvironment reports whether an environment of this name is registered.
func (s *Schema) IsEnvironment(name string) bool {
	_, known := registry.Find(s.words.Environments, name)
	return known
}

// own reports whether an [[env]] table without a kind describes servers of a user's own:
// it has servers, and its name is neither known nor likely a typing error of a known one.
func (c *Config) own(e *Env) bool {
	names := registry.NamesOf(c.Schema.words.Environments, nil)
	return (len(e.Servers) > 0 || e.Launch && len(e.Command) > 0) && !slices.Contains(names, e.Name) && registry.Nearest(e.Name, names) == ""
}

// EnvironmentName returns the error text for an invalid name of an environment, or "".
func EnvironmentName(name string) string {
	if name == "" {
		return "the name is empty"
	}
	return environmentName.Problem(name)
}

// checkKind checks that an [[env]] table names a known environment, or describes one
// of a user's own. It returns false if further checks would have no meaning.
func (c *Config) checkKind(fs *Faults, at string, e Env) bool {
	known := c.environment(e.Name).Name != ""
	switch {
	case environmentName.Problem(e.Name) != "":
		return false
	case known && e.Kind != "":
		fs.add(at+"kind", "%s is a known environment: take kind out, or choose another name", e.Name)
		return false
	case !known && e.Kind == "":
		names := registry.NamesOf(c.Schema.words.Environments, nil)
		msg := describe(e.Name) + " is not one of the environments"
		if e.Name == "" {
			msg = "no environment is named; allowed"
		}
		msg += ": " + strings.Join(names, " | ")
		own := fmt.Sprintf("an environment of your own needs the addresses of its servers in servers (docs/own-environment.md), prompt tasks need kind = %q (docs/prompt-tasks.md)", KindPrompt)
		if n := registry.Nearest(e.Name, names); n != "" {
			msg += fmt.Sprintf("; did you mean %q?", n)
			own = fmt.Sprintf("an environment of your own with this name needs kind = %q (docs/own-environment.md), prompt tasks need kind = %q (docs/prompt-tasks.md)", KindAgentGym, KindPrompt)
		}
		fs.add(at+"name", "%s; %s", msg, own)
		return false
	case e.Kind == KindPrompt:
		c.checkPrompts(fs, at, e)
	}
	return true
}

// checkPrompts checks the keys of an [[env]] table of prompt tasks.
func (c *Config) checkPrompts(fs *Faults, at string, e Env) {
	for key, entries := range map[string][]string{"tasks": e.Tasks, "val_tasks": e.ValTasks} {
		for part := range strings.SplitSeq(strings.Join(entries, ","), ",") {
			if part = strings.TrimSpace(part); part != "" && !c.Schema.IsTaskFile(part) {
				fs.add(at+key, "%s is not a data file, and prompt tasks are the rows of files: give files that end in %s", describe(part), orList(c.Schema.words.TaskFiles))
			}
		}
	}
	if e.Instruction != "" && e.InstructionFile != "" {
		fs.add(at+"instruction", "instruction_file is set too: take out one of the two")
	}
	if _, msg := c.Schema.ScoreParams(e.ScoreFn, e.ScoreParams); msg != "" {
		fs.add(at+"score_params", "%s", msg)
	}
}

// promptScoreFn allows the score functions that need no model and no other reward.
func (s *Schema) promptScoreFn() registry.Range {
	all := s.scoreFn()
	excluded := []string{"", ModelScoreFn, "goal"}
	var names []string
	for _, name := range s.ScoreFns() {
		if !slices.Contains(excluded, name) {
			names = append(names, name)
		}
	}
	return registry.Range{Allowed: strings.Join(names, " | ") + external, Check: func(v any) string {
		if fn := v.(string); slices.Contains(excluded, fn) {
			return describe(fn) + " cannot score the reply to a prompt: give another score function; the reward model is used in [reward]"
		}
		return all.Problem(v)
	}}
}

// ScoreParams parses the parameters of a score function, which are given as text. It
// returns the fault of the first invalid one, or "".
func (s *Schema) ScoreParams(fn string, texts map[string]string) (registry.Values, string) {
	values := registry.Values{}
	e, _ := registry.Find(s.words.Scores, fn)
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		i := slices.IndexFunc(e.Params, func(p registry.Param) bool { return p.Key == key })
		if i < 0 {
			var known []string
			for _, p := range e.Params {
				known = append(known, p.Key)
			}
			if len(known) == 0 {
				return nil, fn + " has no parameters: take out " + key
			}
			return nil, fn + " has no parameter " + key + "; its parameters: " + strings.Join(known, ", ")
		}
		dst := reflect.New(reflect.TypeOf(e.Params[i].Default)).Elem()
		if msg := assignText(dst, texts[key]); msg != "" {
			return nil, key + ": " + msg
		}
		if msg := e.Params[i].Range.Problem(dst.Interface()); msg != "" {
			return nil, key + ": " + msg
		}
		values[key] = dst.Interface()
	}
	if e.Check != nil {
		if key, problem := e.Check(values); problem != "" {
			return nil, key + ": " + problem
		}
	}
	return values, ""
}

// assignText stores text in dst: as it is in a string, otherwise as a TOML value.
func assignText(dst reflect.Value, text string) string {
	if dst.Kind() == reflect.String {
		dst.SetString(text)
		return ""
	}
	var doc map[string]any
	if _, err := toml.Decode("x = "+text+"\n", &doc); err != nil || len(doc) != 1 {
		return describe(text) + " has the wrong type; expected: " + typeName(dst.Type())
	}
	return assign(dst, doc["x"])
}
