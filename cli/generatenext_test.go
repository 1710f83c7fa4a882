package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestScoreAgain checks the score command that `openmanus generate` suggests.
func TestScoreAgain(t *testing.T) {
	plain := run.GenerateOptions{Out: "my out.jsonl", PromptKey: "prompt", ResponseKey: "responses"}
	for _, c := range []struct {
		name string
		r    run.GenerateResult
		o    run.GenerateOptions
		want string
	}{
		{"known sources", run.GenerateResult{Sources: true, Truths: true}, plain, "'my out.jsonl' --score-fn data_source\n"},
		{"an unknown source", run.GenerateResult{Truths: true}, plain, "--score-fn FUNCTION\n"},
		{"no ground truth", run.GenerateResult{Sources: true}, plain, "needs no ground truth"},
		{"other columns", run.GenerateResult{Sources: true, Truths: true}, run.GenerateOptions{Out: "o", PromptKey: "q", ResponseKey: "a"}, "score o --prompt-key q --response-key a --score-fn data_source\n"},
	} {
		if got := scoreAgain(c.o, c.r); !strings.HasPrefix(got, "Next: openmanus score ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestGenerateLongPrompts checks that the command reports all prompts without room for a reply together, before it
// generates replies.
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
		t.Errorf("remaining files: %v", names)
	}
}
