package run

import (
	"testing"

	"github.com/openmanus/openmanus/agent"
)

// TestInGrammar checks that the action of a person has the form that each format reads.
func TestInGrammar(t *testing.T) {
	for format, lines := range map[string]map[string]string{
		"react":            {"move left": "Action: move left", "Thought: it is near\nAction: move up": "Thought: it is near\nAction: move up"},
		"action_tags":      {"move left": "<action>move left</action>", "<action>move up</action>": "<action>move up</action>"},
		"history":          {"move left": "<action>move left</action>"},
		"function_calling": {`{"function_name":"move","arguments":{"to":"left"}}`: `{"function_name":"move","arguments":{"to":"left"}}`, "move left": "move left"},
	} {
		f, err := agent.Formats.Lookup(format)
		if err != nil {
			t.Fatal(err)
		}
		for line, want := range lines {
			if got := inGrammar(f, line); got != want {
				t.Errorf("%s: %q becomes %q, want %q", format, line, got, want)
			}
		}
	}
}
