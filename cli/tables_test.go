package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTablesFit checks that the tables of all commands fit into 80 columns, with runs that have long names.
func TestTablesFit(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains two models")
	}
	dir, cache := t.TempDir(), t.TempDir()
	const other = "a-name-of-a-run-with-forty-characters-aa"
	writeFile(t, dir, "run.toml", tinyRun)
	for _, args := range [][]string{{}, {"--set", "trainer.experiment=" + other, "--set", "trainer.total_steps=1"}} {
		if code, _, stderr := inProcess(t, dir, append(append([]string{"train", "run.toml"}, shortRun...), args...)...); code != 0 {
			t.Fatal(stderr)
		}
	}
	const program = "18406b50e43d2b31-linux-amd64"
	if err := os.MkdirAll(filepath.Join(cache, "programs", program), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, cache, filepath.Join("programs", program, ".complete"), "[]")
	actor := "runs/tiny/checkpoints/step_000002/actor"
	for _, name := range []string{"a.json", "b.json"} {
		if code, _, stderr := inProcess(t, dir, "eval", "run.toml", "--model", actor, "--out", name, "--quiet"); code != 0 {
			t.Fatal(stderr)
		}
	}
	for line, want := range map[string]string{
		"runs":                                   other,
		"runs compare tiny " + other:             "last validations",
		"report tiny " + other:                   other + ": finished, step 1/1,",
		"eval run.toml --quiet --model " + actor: "success_rate",
		"eval compare a.json b.json":             "1 task in both",
		"plan run.toml":                          "together",
		"doctor":                                 "libtorch",
		"env list":                               "webshop",
		"model info " + actor:                    "parameters",
		"data info runs/tiny/rollouts/step_1.jsonl": "messages",
		"cache list":            program,
		"config check run.toml": "",
	} {
		code, stdout, stderr := inEnvironment(t, dir, map[string]string{"OPENMANUS_CACHE": cache}, strings.Fields(line)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", line, code, want, stdout, stderr)
		}
		for row := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(row, "\n")); n > 80 && strings.Contains(strings.TrimSpace(row), " ") {
				t.Errorf("%s: %d columns: %q", line, n, row)
			}
		}
	}
}
