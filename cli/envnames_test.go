package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// configs may not import env or agent, so it names the environments itself: the two
// lists, and those of the action formats, must be the same.
func TestConfigKnowsTheEnvironments(t *testing.T) {
	allowed := ""
	for _, k := range configs.Keys() {
		if k.Name == "env.name" {
			allowed = k.Allowed
		}
	}
	if want := strings.Join(env.Names(), " | "); allowed != want {
		t.Errorf("configs allows %s, env has %s", allowed, want)
	}
	for _, name := range env.Names() {
		spec, err := env.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []action.Format{action.FunctionCalling, action.CodeAsAction} {
			text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\naction_format='" + string(format) + "'\n"
			_, err := configs.Load("run.toml", []byte(text), nil)
			if has := slices.Contains(spec.ActionFormats, format); (err == nil) != has {
				t.Errorf("%s with action_format %s: %v, and the client has it: %v", name, format, err, has)
			}
		}
		text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\n[reward]\nsignal='sum'\n"
		if _, err := configs.Load("run.toml", []byte(text), nil); (err != nil) != spec.Cumulative {
			t.Errorf("%s with signal sum: %v, and its rewards are running scores: %v", name, err, spec.Cumulative)
		}
		for _, format := range configs.Formats() {
			text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\nformat='" + format + "'\n"
			_, err := configs.Load("run.toml", []byte(text), nil)
			if _, refused := agent.FormatFor(format, spec, agent.FormatOptions{}); (err == nil) != (refused == nil) {
				t.Errorf("%s with format %s: %v in a configuration, %v in an episode", name, format, err, refused)
			}
		}
	}
}

// A format that is registered can be configured, and the other way round.
func TestConfigKnowsTheFormats(t *testing.T) {
	want := agent.Formats.Names()
	got := append(configs.Formats(), env.FormatCodeAsAction, env.FormatFunctionCalling)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("configs allows %q, agent has %q", got, want)
	}
	for _, name := range want {
		f, err := agent.Formats.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, anew := f.(agent.Prompting); anew != configs.WritesPrompts(name) {
			t.Errorf("%s writes its prompts anew: %v, and configs says %v", name, anew, !anew)
		}
	}
}
