package configs

import (
	"strings"
	"testing"
)

const labelled = "[model]\npath='m'\n[[env]]\nname='maze'\ntasks='0'\nval_tasks='1'\n[[env]]\nname='maze'\nlabel='tags'\nformat='action_tags'\ntasks='0'\n"

// TestLabels checks that labels distinguish two tables of one environment, also in
// --set, and that the name of the environment in --set means all of its tables.
func TestLabels(t *testing.T) {
	cfg, err := schema.Load("run.toml", []byte(labelled), []string{"env.maze.timeout_s=7", "env.tags.max_turns=3", "env.0.max_turns=4"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := cfg.Env[0], cfg.Env[1]
	if a.Called() != "maze" || b.Called() != "tags" || a.TimeoutS != 7 || b.TimeoutS != 7 || a.MaxTurns != 4 || b.MaxTurns != 3 {
		t.Errorf("got %+v and %+v", a, b)
	}
	again, err := schema.Load("written", cfg.Marshal(), nil)
	if err != nil || len(Diff(cfg, again)) != 0 {
		t.Errorf("the written configuration loads with %v and differs in %v", err, Diff(cfg, again))
	}
	for _, c := range []struct {
		name, set, want string
	}{
		{"twice", "env.0.label=tags", "env.1.label: env.0 already has the name tags"},
		{"all together", "env.1.label=overall", "totals of all tables"},
		{"another environment", "env.1.label=wordle", "another environment"},
		{"a number", "env.1.label='0'", "number of a table"},
		{"a path", "env.1.label=../x", "letters, digits, _ and -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := schema.Load("run.toml", []byte(labelled), []string{c.set}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := schema.Load("run.toml", []byte(labelled), []string{"env.servers=http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "env.1.servers: http://127.0.0.1:1 is also a server of env.0") {
		t.Errorf("two tables with the same server: got %v, want a fault", err)
	}
	if _, err := schema.Load("run.toml", []byte(labelled), []string{"env.tag.max_turns=3"}); err == nil || !strings.Contains(err.Error(), "maze, tags") {
		t.Errorf("an unknown label: got %v, want a list of the labels", err)
	}
}
