package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// The command that generate names next is one that can work.
func TestScoreNext(t *testing.T) {
	row := func(source, truth string) map[string]any {
		return map[string]any{"data_source": source, "reward_model": map[string]any{"ground_truth": truth}}
	}
	plain := generateOptions{Out: "my out.jsonl", PromptKey: "prompt", ResponseKey: "responses"}
	for _, c := range []struct {
		name string
		rows []map[string]any
		o    generateOptions
		want string
	}{
		{"known sources", []map[string]any{row("openai/gsm8k", "4"), row("searchR1_nq", "Paris")}, plain, "'my out.jsonl' --score-fn data_source\n"},
		{"one unknown source", []map[string]any{row("openai/gsm8k", "4"), row("mine", "4")}, plain, "--score-fn FUNCTION\nFUNCTION is one of those that openmanus score --help names: not every row"},
		{"one without a ground truth", []map[string]any{row("openai/gsm8k", ""), row("openai/gsm8k", "4")}, plain, "--score-fn FUNCTION\nFUNCTION is one of those that openmanus score --help names, and needs no ground truth"},
		{"nothing but prompts", []map[string]any{{"prompt": "?"}}, plain, "needs no ground truth"},
		{"other columns", []map[string]any{row("openai/gsm8k", "4")}, generateOptions{Out: "o", PromptKey: "q", ResponseKey: "a"}, "score o --prompt-key q --response-key a --score-fn data_source\n"},
	} {
		next := scoreNext{sources: true, truths: true}
		for _, r := range c.rows {
			next.see(r)
		}
		if got := next.text(c.o); !strings.HasPrefix(got, "Next: openmanus score ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Prompts without room for a reply are told all at once, before anything is
// generated.
func TestGenerateLongPrompts(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	long := strings.Repeat("long ", 100)
	writeFile(t, dir, "p.jsonl", `{"prompt":"short"}`+"\n"+`{"prompt":"`+long+`"}`+"\n"+`{"prompt":"short"}`+"\n"+`{"prompt":"`+long+long+`"}`+"\n")
	code, _, stderr := inProcess(t, dir, "generate", "p.jsonl", "r.jsonl", "--model", "m", "--device", "cpu", "--max-new-tokens", "4", "--max-context-tokens", "300")
	if code != int(errext.Input) {
		t.Errorf("exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "2 of 4 prompts leave no room for a reply in 300 tokens", "rows 1, 3; the longest has 10")
	if names := entries(t, dir); len(names) != 2 {
		t.Errorf("it left %v", names)
	}
}
