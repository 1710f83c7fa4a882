package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

const scoredReplies = `{"reward_model":{"ground_truth":"4"},"responses":["#### 4","#### 5","#### 4"]}
{"reward_model":{"ground_truth":"7"},"responses":["#### 1","none","#### 2"]}
`

func TestScore(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "in.jsonl", scoredReplies)
	code, stdout, stderr := inProcess(t, dir, "score", "in.jsonl", "out.jsonl", "--score-fn", "gsm8k", "--format-score", "0.1", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var got run.ScoreResult
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := run.ScoreResult{Rows: 2, Samples: 3, Replies: 6, Metrics: map[string]float64{"reward/gsm8k/mean": 2.3 / 6}, Scores: map[string]float64{
		"mean@3": 2.3 / 6, "best@1": 2.3 / 6, "best@2": 0.55, "best@3": 0.55, "pass@1": 1. / 3, "pass@2": 0.5, "pass@3": 0.5,
	}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	out := one(t, dir, "out.jsonl")
	if !strings.Contains(out, `"scores":[1,0.1,1]}`+"\n") || !strings.Contains(out, `"scores":[0.1,0,0.1]}`+"\n") {
		t.Errorf("written:\n%s", out)
	}
	if left := entries(t, dir); len(left) != 2 {
		t.Errorf("remaining files: %v", left)
	}
	for _, c := range []struct {
		args []string
		code errext.ExitCode
		want string
	}{
		{[]string{"score", "in.jsonl", "out.jsonl", "--score-fn", "gsm8k"}, errext.Usage, "out.jsonl exists"},
		{[]string{"score", "in.jsonl", "--score-fn", "gsm9k"}, errext.Usage, `did you mean "gsm8k"?`},
		{[]string{"score", "in.jsonl"}, errext.Usage, "--score-fn: missing"},
		{[]string{"score", "--score-fn", "math"}, errext.Usage, "score needs IN"},
		{[]string{"score", "none.jsonl", "--score-fn", "math"}, errext.Input, "none.jsonl"},
		{[]string{"score", "in.jsonl", "--score-fn", "math", "--response-key", "x"}, errext.Input, "row 0: it has no replies in x"},
		{[]string{"score", "in.jsonl", "--score-fn", "math", "--ground-truth-key", "foo.bar"}, errext.Input, "column foo.bar"},
		{[]string{"score", "in.jsonl", "--score-fn", "data_source", "--data-source-key", "from"}, errext.Input, `no function for data_source "": the data source was read from column from: choose a function with --score-fn`},
		{[]string{"score", "in.jsonl", "--score-fn", "data_source", "--data-source-key", "reward_model.ground_truth"}, errext.Input, `no function for data_source "4"`},
		{[]string{"score", "in.jsonl", "in.jsonl", "--score-fn", "gsm8k", "--force"}, errext.Usage, "in.jsonl is the input"},
		{[]string{"score", "in.jsonl", "o.parquet", "--score-fn", "math"}, errext.Input, "end the name in .jsonl"},
		{[]string{"score", "in.jsonl", "--score-fn", "exec:/no/such/program"}, errext.Env, "unreachable"},
		{[]string{"score", "in.jsonl", "--score-fn", "exec:sleep 600", "--timeout", "0.05"}, errext.Env, "50ms (--timeout)"},
	} {
		if code, _, stderr := inProcess(t, dir, c.args...); code != int(c.code) || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d\n%s", c.args, code, stderr)
		}
	}
}

// TestScoreResumes scores with the components of a configuration. It checks that progress of other work is rejected, or
// discarded with --force, and that the finished rows of the same work are kept.
func TestScoreResumes(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "in.jsonl", scoredReplies)
	writeFile(t, dir, "run.toml", tinyRun+"\n[reward.components.gsm8k]\nweight = 2.0\n[reward.components.brief]\nfn = \"length\"\nweight = -0.5\nmax_length = 1\nunit = \"words\"\n")
	args := []string{"score", "in.jsonl", "out.jsonl", "--config", "run.toml"}
	writeFile(t, dir, "half.jsonl", strings.Replace(scoredReplies, `"7"`, `""`, 1))
	if code, _, stderr := inProcess(t, dir, "score", "half.jsonl", "out.jsonl", "--config", "run.toml"); code != int(errext.Input) || !strings.Contains(stderr, "row_1_0") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if left := entries(t, dir); len(left) != 3 {
		t.Fatalf("no row was scored: got files %v, want 3 files", left)
	}
	writeFile(t, dir, "other.toml", strings.Replace(one(t, dir, "run.toml"), "weight = -0.5", "weight = -0.25", 1))
	other := workOf(t, dir, []string{"score", "in.jsonl", "out.jsonl", "--config", "other.toml", "--prompt-key", "question"})
	writeFile(t, dir, "out.jsonl.progress", other+"\n"+`{"row":1,"data":{"scores":[9,9,9],"parts":{}}}`+"\n")
	code, _, stderr := inProcess(t, dir, args...)
	for _, want := range []string{"out.jsonl.progress was started with other settings", `prompt_key: "question" -> "prompt"`, "reward.components.brief.weight: -0.25 -> -0.5"} {
		if code != int(errext.Input) || !strings.Contains(stderr, want) || strings.Contains(stderr, "{") {
			t.Fatalf("with progress of other work: exit code %d, want %q\n%s", code, want, stderr)
		}
	}
	if code, _, stderr := inProcess(t, dir, append(args, "--force")...); code != 0 {
		t.Fatalf("with --force: exit code %d\n%s", code, stderr)
	}
	out := one(t, dir, "out.jsonl")
	if !strings.Contains(out, `"scores":[1.5,-0.5,1.5]`) || !strings.Contains(out, `"scores":[-0.5,0,-0.5]`) {
		t.Errorf("written:\n%s", out)
	}
	args[2] = "more.jsonl"
	writeFile(t, dir, "more.jsonl.progress", workOf(t, dir, args)+"\n"+`{"row":1,"data":{"scores":[9,9,9],"parts":{}}}`+"\n"+`{"row":0,"da`)
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Fatalf("resumed: exit code %d\n%s", code, stderr)
	}
	if out := one(t, dir, "more.jsonl"); !strings.Contains(out, `"scores":[1.5,-0.5,1.5]`) || !strings.Contains(out, `"scores":[9,9,9]`) {
		t.Errorf("written:\n%s", out)
	}
}

// TestGenerateResumes checks that rows generated before an interruption are kept, and that the result equals the
// result of an uninterrupted command.
func TestGenerateResumes(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	text := ""
	for _, p := range []string{`"one"`, `[{"role":"system","content":"s"},{"role":"user","content":"two"}]`, `"three"`} {
		text += `{"prompt":` + p + `,"n":1}` + "\n"
	}
	writeFile(t, dir, "in.jsonl", text)
	args := func(out string) []string {
		return []string{"generate", "in.jsonl", out, "--model", "m", "--samples", "2", "--max-new-tokens", "5", "--seed", "7"}
	}
	if code, stdout, stderr := inProcess(t, dir, args("whole.jsonl")...); code != 0 || !strings.Contains(stdout, "3 rows x 2 replies") || !strings.Contains(stdout, "Next: openmanus score whole.jsonl --score-fn FUNCTION\n") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	whole := one(t, dir, "whole.jsonl")
	var row struct {
		N         int      `json:"n"`
		Responses []string `json:"responses"`
		Tokens    []int    `json:"responses_tokens"`
	}
	line, _, _ := strings.Cut(whole, "\n")
	if err := json.Unmarshal([]byte(line), &row); err != nil || row.N != 1 || len(row.Responses) != 2 || len(row.Tokens) != 2 || row.Tokens[0] < 1 || row.Tokens[0] > 5 {
		t.Fatalf("%v: %s", err, line)
	}

	// A command fails if it cannot write the progress file.
	if err := os.Mkdir(filepath.Join(dir, "part.jsonl.progress"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := inProcess(t, dir, args("part.jsonl")...); code != int(errext.Disk) {
		t.Errorf("with a folder at the path of the progress file: exit code %d", code)
	}
	if err := os.Remove(filepath.Join(dir, "part.jsonl.progress")); err != nil {
		t.Fatal(err)
	}
	// The progress file of a command that was killed while it wrote the third line.
	writeFile(t, dir, "part.jsonl.progress", workOf(t, dir, args("part.jsonl"))+"\n"+`{"row":1,"data":{"texts":["kept","too"],"tokens":[1,2]}}`+"\n"+`{"row":0,"da`)
	if code, _, stderr := inProcess(t, dir, args("part.jsonl")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	a, b := strings.Split(whole, "\n"), strings.Split(one(t, dir, "part.jsonl"), "\n")
	if a[0] != b[0] || a[2] != b[2] || !strings.Contains(b[1], `"responses":["kept","too"],"responses_tokens":[1,2]`) {
		t.Errorf("%q\nand\n%q", a, b)
	}
}

// workOf runs a command that cannot write the output, and returns the first line of the remaining progress file.
func workOf(t *testing.T, dir string, args []string) string {
	t.Helper()
	out := filepath.Join(dir, args[2])
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := inProcess(t, dir, append(slices.Clone(args), "--force")...)
	work, _, whole := strings.Cut(one(t, dir, args[2]+".progress"), "\n")
	if code != int(errext.Disk) || !whole {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if err := errors.Join(os.Remove(out), os.Remove(out+".progress")); err != nil {
		t.Fatal(err)
	}
	return work
}

// TestScoreRejectsOtherFunction checks that progress of another score function is rejected.
func TestScoreRejectsOtherFunction(t *testing.T) {
	dir := t.TempDir()
	const scores = "while read -r _; do echo '{\"request\":1,\"scores\":[1,1,1,1,1,1]}'; done\n"
	writeFile(t, dir, "in.jsonl", scoredReplies)
	writeFile(t, dir, "judge.sh", scores)
	writeFile(t, dir, "table.txt", "one table")
	args := []string{"score", "in.jsonl", "out.jsonl", "--score-fn", "exec:sh judge.sh --table=table.txt"}
	first := workOf(t, dir, args)
	if again := workOf(t, dir, args); again != first {
		t.Errorf("two calls with the same score function have the work %s and %s", first, again)
	}
	if patient := workOf(t, dir, append(slices.Clone(args), "--timeout", "70", "--batch-size", "100")); patient != first {
		t.Errorf("a longer timeout changes the work: %s and %s", first, patient)
	}
	const row = `{"row":0,"data":{"scores":[9,9,9],"parts":{}}}` + "\n"
	for _, c := range []struct{ file, text string }{{"judge.sh", "# another\n" + scores}, {"table.txt", "another"}} {
		before := workOf(t, dir, args)
		writeFile(t, dir, c.file, c.text)
		if workOf(t, dir, args) == before {
			t.Errorf("another %s does not change the work %s", c.file, before)
		}
		writeFile(t, dir, "out.jsonl.progress", before+"\n"+row)
		code, _, stderr := inProcess(t, dir, args...)
		if want := strconv.Quote(c.file); code != int(errext.Input) || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, want %q\n%s", code, want, stderr)
		}
		if err := os.Remove(filepath.Join(dir, "out.jsonl.progress")); err != nil {
			t.Fatal(err)
		}
	}
	// A progress file without a finished row is replaced.
	writeFile(t, dir, "out.jsonl.progress", first+"\n"+row[:len(row)-3])
	if code, _, stderr := inProcess(t, dir, args...); code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestScoreAfterAFailure checks that no progress file remains if the score program fails at once.
func TestScoreAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "in.jsonl", scoredReplies)
	writeFile(t, dir, "judge.sh", "exit 7\n")
	if code, _, stderr := inProcess(t, dir, "score", "in.jsonl", "out.jsonl", "--score-fn", "exec:sh judge.sh"); code != int(errext.Env) || !strings.Contains(stderr, "exit status 7") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if left := entries(t, dir); len(left) != 2 {
		t.Errorf("remaining files: %v", left)
	}
	if code, _, stderr := inProcess(t, dir, "score", "in.jsonl", "out.jsonl", "--score-fn", "gsm8k"); code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
