package run

import (
	"context"
	"errors"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// TestContractOfPrompts checks that the history length, the prompts and the memory
// file are parts of the contract.
func TestContractOfPrompts(t *testing.T) {
	parts := func(e configs.Env) map[string]string {
		t.Helper()
		h := newTestHost(t)
		spec, err := env.Lookup("maze")
		if err != nil {
			t.Fatal(err)
		}
		if e.MemoryFile != "" {
			writeFile(t, h.Dir, e.MemoryFile, "old")
		}
		f, err := agent.FormatFor(e.Format, spec, agent.FormatOptions{HistoryLength: e.HistoryLength})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := errors.Join(addFormat(t.Context(), got, agent.Setup{Format: f, Spec: spec}, e), addFiles(&h.Host, got, e)); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := parts(configs.Env{Format: "react", HistoryLength: 2}); len(got) != 0 {
		t.Errorf("react has %v", got)
	}
	one, two := parts(configs.Env{Format: "history", HistoryLength: 1}), parts(configs.Env{Format: "history", HistoryLength: 2})
	staged := parts(configs.Env{Format: "staged", HistoryLength: 2, MemoryFile: "m.md"})
	if one["prompts"] == two["prompts"] || two["prompts"] == staged["prompts"] || staged["memory_file"] == "" {
		t.Errorf("%v, %v, %v", one, two, staged)
	}
}

// worded is a format with a fixed instruction (rule) and a fixed prompt for every turn (shown).
type worded struct {
	agent.Format
	rule, shown string
}

func (w worded) Prompt() string                      { return w.rule }
func (w worded) Begin(data.Task, int) agent.Prompter { return shows(w.shown) }

// shows is a prompter that always returns the same prompt.
type shows string

func (p shows) Prompt(context.Context, agent.PromptState) (string, error) { return string(p), nil }

// TestContractOfCharacters checks that one changed character in the instruction or in
// a prompt changes only that part of the contract.
func TestContractOfCharacters(t *testing.T) {
	react, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	of := func(rule, shown string) eval.Contract {
		t.Helper()
		setup := agent.Setup{Format: worded{react, rule, shown}, Spec: spec}
		parts := map[string]string{"instruction": instructionPart([]data.Task{{Env: "maze", ID: "maze_1"}}, setup)}
		if err := addFormat(t.Context(), parts, setup, configs.Env{}); err != nil {
			t.Fatal(err)
		}
		return eval.NewContract(parts)
	}
	base := of("Say so.", "Here.")
	if again := of("Say so.", "Here."); again.Hash != base.Hash {
		t.Errorf("equal formats have different contracts: %v", eval.Diff(base, again))
	}
	for part, other := range map[string]eval.Contract{"instruction": of("Say so!", "Here."), "prompts": of("Say so.", "Here!")} {
		if d := eval.Diff(base, other); len(d) != 1 || d[0].Part != part || other.Hash == base.Hash {
			t.Errorf("one changed character in the %s changes the parts %v", part, d)
		}
	}
}
