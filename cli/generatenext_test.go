package cli

import (
	"strings"
	"testing"
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
