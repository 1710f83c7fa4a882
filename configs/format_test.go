package configs

import (
	"strings"
	"testing"
)

func TestFormatOptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		sets []string
		want string // text in the only fault; "": no fault
	}{
		{"history", []string{"env.maze.format=history", "env.maze.history_length=5"}, ""},
		{"history without a past", []string{"env.maze.format=history", "env.maze.history_length=0"}, ""},
		{"staged", []string{"agent.format=staged", "agent.memory_file=memory.md", "agent.history_length=1"}, ""},
		{"summaries", []string{"agent.format=history", "env.maze.use_summary=true", "agent.summary.base_url=http://127.0.0.1:8000/v1"}, ""},
		{"a window over everything", []string{"env.maze.history_length=5"}, `only used with format = "history" or "staged"`},
		{"a window of nothing", []string{"env.maze.history_length=0"}, `only used with format = "history" or "staged"`},
		{"a negative window", []string{"env.maze.format=history", "env.maze.history_length=-2"}, "-2 is not allowed"},
		{"a memory that is not there", []string{"env.maze.format=history", "env.maze.memory_file=m"}, `only used with format = "staged"`},
		{"a deterministic memory", []string{"env.maze.format=staged", "env.maze.memory_file=m", "rollout.deterministic=true"}, "memory_file: its content depends"},
		{"summaries of a memory", []string{"env.maze.format=staged", "env.maze.use_summary=true"}, `only used with format = "history"`},
		{"deterministic summaries", []string{"env.maze.format=history", "env.maze.use_summary=true", "agent.summary.base_url=http://a/v1", "rollout.deterministic=true"}, "use_summary: the summaries of an endpoint"},
		{"summaries without an endpoint", []string{"env.maze.format=history", "env.maze.use_summary=true"}, "give agent.summary.base_url"},
		{"an address that is none", []string{"env.maze.format=history", "env.maze.use_summary=true", "agent.summary.base_url=here"}, `"here" is not a server's address`},
		{"tools in a maze", []string{"env.maze.format=tool_call"}, "maze has no tools to call"},
		{"an unknown format", []string{"env.maze.format=histroy"}, `did you mean "history"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schema.Load("run.toml", []byte(minimal), tt.sets)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("%q is accepted, want %q", tt.sets, tt.want)
			}
			if fs := err.(Faults); len(fs) != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want only %q", err, tt.want)
			}
		})
	}

	c := load(t, minimal, "agent.format=staged", "agent.memory_file=a.md", "env.maze.history_length=7")
	if e := c.Env[0]; e.HistoryLength != 7 || e.MemoryFile != "a.md" {
		t.Errorf("maze has history_length %d and memory_file %q, want 7 and a.md", e.HistoryLength, e.MemoryFile)
	}
	if e := c.Env[1]; e.HistoryLength != -1 || e.MemoryFile != "" { // react
		t.Errorf("textcraft has history_length %d and memory_file %q, want -1 and none", e.HistoryLength, e.MemoryFile)
	}
}
