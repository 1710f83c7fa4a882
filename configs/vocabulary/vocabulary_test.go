package vocabulary

import (
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// TestEnvironmentsAndFormats checks that a configuration accepts exactly the
// formats and signals that an environment supports.
func TestEnvironmentsAndFormats(t *testing.T) {
	schema := configs.New(New())
	for _, name := range env.Names() {
		spec, err := env.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []action.Format{action.FunctionCalling, action.CodeAsAction} {
			text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\naction_format='" + string(format) + "'\n"
			_, err := schema.Load("run.toml", []byte(text), nil)
			if has := slices.Contains(spec.ActionFormats, format); (err == nil) != has {
				t.Errorf("%s with action_format %s: error %v, but the client supports it: %v", name, format, err, has)
			}
		}
		text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\n[reward]\nsignal='sum'\n"
		if _, err := schema.Load("run.toml", []byte(text), nil); (err != nil) != spec.Cumulative {
			t.Errorf("%s with signal sum: error %v, but Cumulative is %v", name, err, spec.Cumulative)
		}
		for _, format := range schema.Formats() {
			text := "[model]\npath='m'\n[[env]]\nname='" + name + "'\nservers=['http://a']\ntasks='0'\nval_tasks='0'\nformat='" + format + "'\n"
			_, err := schema.Load("run.toml", []byte(text), nil)
			if _, refused := agent.FormatFor(format, spec, agent.FormatOptions{}); (err == nil) != (refused == nil) {
				t.Errorf("%s with format %s: error %v when loading, error %v in an episode", name, format, err, refused)
			}
		}
	}
}
