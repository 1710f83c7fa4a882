package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// launched is a configuration whose environment has launch = true.
const launched = `
[model]
path = "m"
[[env]]
name = "textcraft"
tasks = "0-9"
val_tasks = "10-12"
launch = true
checkout = "AgentGym"
`

func TestLaunch(t *testing.T) {
	text := launched + `num_servers = 4
base_port = 36100
venv = "venvs/textcraft"
environment = { PYTHONHASHSEED = "1", "A B" = "{port} \"x\"" }
start_timeout_s = 30
`
	c := load(t, text)
	want := schema.DefaultEnv("textcraft")
	want.Tasks, want.ValTasks, want.Format, want.MaxTurns = []string{"0-9"}, []string{"10-12"}, "action_tags", 10
	want.Launch, want.Checkout, want.NumServers, want.BasePort = true, "AgentGym", 4, 36100
	want.Venv, want.StartTimeoutS = "venvs/textcraft", 30
	want.Environment = map[string]string{"PYTHONHASHSEED": "1", "A B": `{port} "x"`}
	if diff := cmp.Diff(want, c.Env[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again := load(t, string(c.Marshal()))
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("the written configuration loads differently (-want +got):\n%s", diff)
	}
	// The key env.environment may be a table of the file, an override or an empty table.
	c = load(t, launched+"[env.environment]\nX = \"1\"\n", `env.textcraft.command=["serve", "{port}"]`, `env.textcraft.environment={X = "2"}`)
	if got := fmt.Sprint(c.Env[0].Environment, c.Env[0].Command); got != "map[X:2] [serve {port}]" {
		t.Errorf("got %s", got)
	}
	if e := load(t, launched, "env.environment={}").Env[0].Environment; e != nil {
		t.Errorf("an empty table loads as %v, want nil", e)
	}
	clone := c.Clone()
	clone.Env[0].Environment["X"], clone.Env[0].Command[0] = "3", "other"
	if c.Env[0].Environment["X"] != "2" || c.Env[0].Command[0] != "serve" {
		t.Error("a change of a clone changes the original")
	}
	for _, ch := range Diff(load(t, launched), again) {
		if strings.HasPrefix(ch.Key, "env.") && !ch.Free {
			t.Errorf("a resumed run may not change %v, want permission", ch)
		}
	}
}

func TestLaunchFaults(t *testing.T) {
	tests := []struct {
		name, text, key, want string
	}{
		{"with servers", launched + `servers = "http://127.0.0.1:1"`, "env.0.servers", "take out one of the two"},
		{"without checkout", strings.Replace(launched, `checkout = "AgentGym"`, "", 1), "env.0.checkout", "or a command"},
		{"venv and python", launched + "venv = \"v\"\npython = \"p\"", "env.0.venv", "python names the interpreter"},
		{"too many", launched + "num_servers = 0", "env.0.num_servers", "from 1 to 1024"},
		{"on one account", strings.Replace(launched, "textcraft", "todo", 1) + "num_servers = 2", "env.0.num_servers", "share one account"},
		{"on one credential", strings.Replace(launched, "textcraft", "sheet", 1) + "num_servers = 2", "env.0.num_servers", "set it to 1"},
		{"last port", launched + "base_port = 65535\nnum_servers = 2", "env.0.base_port", "exceed port 65535"},
		{"port of another", launched + "num_servers = 2\n[[env]]\nname = \"maze\"\ntasks = \"0\"\nlaunch = true\ncommand = \"x\"\nbase_port = 36002",
			"env.1.base_port", "port 36002 is taken"},
		{"not launched", strings.Replace(launched, "launch = true", "", 1), "env.0.checkout", "only used with launch = true"},
		{"not launched", strings.Replace(launched, "launch = true", "", 1) + "environment = {A = \"\"}", "env.0.environment", "only used with launch = true"},
		{"recipes", launched + `recipes = "dir"`, "env.0.recipes", "only used with the built-in textcraft server"},
		{"no table", launched + `environment = "A=B"`, "env.0.environment", `"A=B" has the wrong type; expected: table of strings`},
		{"no strings", launched + `environment = {A = 1}`, "env.0.environment", "A = 1: expected a string"},
		{"no name", launched + `environment = {"A=B" = "1"}`, "env.0.environment", `"A=B" is not an environment variable`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Load("run.toml", []byte(test.text), nil)
			var faults Faults
			if !errors.As(err, &faults) || !faults.about(test.key) {
				t.Fatalf("no fault about %s: %v", test.key, err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q does not contain %q", err, test.want)
			}
		})
	}
}
