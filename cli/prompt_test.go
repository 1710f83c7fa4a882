package cli

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

const promptRun = `
[model]
device = "cpu"
compute_dtype = "float32"
[model.fresh]
layers = 1
hidden_size = 16
intermediate_size = 32
heads = 2
kv_heads = 1
[[env]]
name = "sums"
kind = "prompt"
tasks = ["train.jsonl"]
val_tasks = ["val.jsonl"]
score_fn = "format"
score_params = {patterns = "[\"[a-m]\"]"}
[data]
train_batch_size = 4
max_prompt_tokens = 64
filter_overlong = true
[rollout]
group_size = 8
max_new_tokens = 4
max_context_tokens = 96
[rollout.val]
group_size = 4
temperature = 1.0
[actor.optim]
lr = 1e-3
[trainer]
experiment = "sums"
total_steps = 3
test_every = 3
`

// sums writes rows with the question of a sum and its answer.
func sums(t *testing.T, dir, name string, from, n int) {
	t.Helper()
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "{\"question\": \"%d+%d?\", \"answer\": %d}\n", i, i, 2*i)
	}
	writeFile(t, dir, name, b.String())
}

// TestTrainOnPrompts trains on prompt tasks and compares the measured success with the replies.
func TestTrainOnPrompts(t *testing.T) {
	dir := t.TempDir()
	sums(t, dir, "train.jsonl", 0, 8)
	sums(t, dir, "val.jsonl", 20, 6)
	long := strings.Repeat("and then ", 20)
	writeFile(t, dir, "train.jsonl", `{"question":"`+long+`?","answer":"0"}`+"\n"+one(t, dir, "train.jsonl"))
	writeFile(t, dir, "run.toml", promptRun)
	if code, _, stderr := inProcess(t, dir, "train", "run.toml"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	letters := regexp.MustCompile("[a-m]")
	check := func(e *data.Episode) (success float64) {
		if e.Outcome == data.OverlongPrompt {
			return 0
		}
		if len(e.Turns) != 1 || !e.Turns[0].Done || e.Task.Env != "sums" {
			t.Fatalf("the episode of %s has %d turns: %+v", e.Task.ID, len(e.Turns), e.Turns)
		}
		if letters.MatchString(e.Turns[0].Text) {
			success = 1
		}
		if e.Reward != success || (e.Outcome == data.Success) != (success == 1) {
			t.Errorf("the reply %q has reward %g and outcome %s", e.Turns[0].Text, e.Reward, e.Outcome)
		}
		if e.Messages[0].Role != "user" || e.Messages[0].Content != e.FirstObservation {
			t.Errorf("the prompt is %+v, want the question %q", e.Messages, e.FirstObservation)
		}
		return success
	}
	rate := func(file string) float64 {
		episodes := readDump(t, filepath.Join(dir, "runs/sums/rollouts", file))
		sum, n := 0.0, 0
		for _, e := range episodes {
			sum += check(e)
			if e.Outcome.Trainable() {
				n++
			}
		}
		return sum / float64(n)
	}
	trained, want := 0.0, 0.0
	for step := 1; step <= 3; step++ {
		trained += rate(fmt.Sprintf("step_%d.jsonl", step))
	}
	validated := -1.0
	for _, m := range metricsOf(t, dir, "sums") {
		if r, ok := m["episode/success_rate"].(float64); ok {
			want += r
		}
		if v, ok := m["val/sums/success_rate"].(float64); ok {
			validated = v
		}
	}
	if got := rate("val_after_sums.jsonl"); math.Abs(got-validated) > 1e-9 {
		t.Errorf("the last validation reports %g, and its replies have %g", validated, got)
	}
	if trained == 0 || math.Abs(trained-want) > 1e-9 {
		t.Errorf("the metrics report a success of %g over the steps, and the replies have %g", want, trained)
	}

	// The same configuration evaluates and rolls out, and a rollout can be replayed.
	model := "runs/sums/checkpoints/step_000003/actor"
	code, stdout, stderr := inProcess(t, dir, "eval", "run.toml", "--model", model, "--samples", "2")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "sums: 6 tasks x 2 samples", "pass@2")
	for _, args := range [][]string{
		{"rollout", "run.toml", "--model", model, "--samples", "2", "--dump", "d.jsonl"},
		{"replay", "d.jsonl"},
		{"replay", "d.jsonl", "--no-model"},
		{"config", "check", "runs/sums/config.toml"},
	} {
		if code, _, stderr := inProcess(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
	for _, e := range readDump(t, filepath.Join(dir, "d.jsonl")) {
		check(e)
	}
}

// TestPromptTruncation checks that data.truncation shortens the last message of a prompt on each side and keeps the
// messages before it, and that a long prompt is an error otherwise.
func TestPromptTruncation(t *testing.T) {
	words := make([]string, 60)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	question := strings.Join(words, " ")
	for side, want := range map[string][2]bool{"left": {false, true}, "middle": {true, true}, "right": {true, false}, "error": {}} {
		t.Run(side, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "train.jsonl", `{"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "`+question+`"}]}`+"\n")
			run := strings.NewReplacer("filter_overlong = true", "truncation = '"+side+"'", `"val.jsonl"`, "", "test_every = 3", "test_every = 0\nval_before_train = false",
				"max_prompt_tokens = 64", "max_prompt_tokens = 128", "max_context_tokens = 96", "max_context_tokens = 160", "total_steps = 3", "total_steps = 1",
				"train_batch_size = 4", "train_batch_size = 1").Replace(promptRun)
			writeFile(t, dir, "run.toml", run)
			code, _, stderr := inProcess(t, dir, "train", "run.toml")
			if side == "error" {
				if code != int(errext.Input) || !strings.Contains(stderr, "data.truncation") {
					t.Errorf("exit code %d, want %d and a hint\n%s", code, errext.Input, stderr)
				}
				return
			}
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			for _, e := range readDump(t, filepath.Join(dir, "runs/sums/rollouts/step_1.jsonl")) {
				last := e.Messages[1].Content
				if n := e.Turns[0].Start; !e.PromptTruncated || n > 128 || n < 100 || e.Messages[0].Content != "Be brief." || e.FirstObservation != question {
					t.Errorf("the prompt has %d tokens, truncated %t: %+v", n, e.PromptTruncated, e.Messages)
				}
				if got := [2]bool{strings.HasPrefix(last, "w0 w1"), strings.HasSuffix(last, "w58 w59")}; got != want {
					t.Errorf("start and end are kept: %v, want %v: %q", got, want, last)
				}
			}
		})
	}
}

// TestPromptColumns checks the forms of rows, on an endpoint that records the messages.
func TestPromptColumns(t *testing.T) {
	verl := `{"data_source": "openai/gsm8k", "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}], "reward_model": {"style": "rule", "ground_truth": "4"}, "extra_info": {"index": 0}}`
	for name, c := range map[string]struct {
		keys, row string
		want      []string // role and content of each message
		success   string
	}{
		"verl":        {``, verl, []string{"system: Be brief.", "user: 2+2?"}, "1.000"},
		"question":    {`score_fn = "gsm8k"`, `{"question": "2+2?", "answer": "4"}`, []string{"user: 2+2?"}, "1.000"},
		"worked":      {`score_fn = "gsm8k"`, `{"question": "2+2?", "answer": "2+2 is <<2+2=4>>4\n#### 4"}`, []string{"user: 2+2?"}, "1.000"},
		"wrong":       {`score_fn = "gsm8k"`, `{"question": "2+3?", "answer": 5}`, []string{"user: 2+3?"}, "0.000"},
		"own columns": {"score_fn = 'qa_em'\nscore_params = {min_answer_tags = '1'}\nprompt_key = 'task.text'\nanswer_key = 'task.gold'", `{"task": {"text": "2+2?", "gold": ["four", "4"]}}`, []string{"user: 2+2?"}, "0.000"},
		"instruction": {"instruction = 'Reply with #### N.'", verl, []string{"system: Be brief.", "user: Reply with #### N.\n\n2+2?"}, "1.000"},
		"partial":     {"score_fn = 'gsm8k'\nscore_params = {format_score = '0.5'}\nsuccess_reward = 0.4", `{"question": "2+3?", "answer": "5"}`, []string{"user: 2+3?"}, "1.000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "rows.jsonl", c.row+"\n")
			writeFile(t, dir, "run.toml", "[model]\npath = 'm'\n[[env]]\nname = 'sums'\nkind = 'prompt'\ntasks = 'rows.jsonl'\nval_tasks = 'rows.jsonl'\n"+c.keys+"\n")
			s := openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer {
				return openaitest.Answer{Text: "It is\n#### 4", Tokens: 9}
			})
			code, stdout, stderr := inProcess(t, dir, "eval", "run.toml", "--base-url", s.URL, "--api-model", "small")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			mustContain(t, "stdout", stdout, "success "+c.success)
			var got []string
			requests := s.Requests()
			for _, m := range requests[len(requests)-1].Messages {
				got = append(got, m.Role+": "+m.Content)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestPromptFaults checks the errors of rows that cannot be played or scored.
func TestPromptFaults(t *testing.T) {
	for name, c := range map[string]struct {
		keys, row, want string
		code            errext.ExitCode
	}{
		"no prompt":          {``, `{"text": "2+2?"}`, "it has no column prompt: name the column of the prompts with prompt_key in [[env]]; columns: text", errext.Input},
		"another column":     {`prompt_key = "q"`, `{"question": "2+2?"}`, "it has no column q", errext.Input},
		"no truth":           {`score_fn = "gsm8k"`, `{"question": "2+2?"}`, "name the column of the ground truths with answer_key", errext.Input},
		"unknown source":     {``, `{"question": "2+2?", "answer": "4", "data_source": "mine"}`, `no function for data_source "mine": give score_fn`, errext.Input},
		"a reply at the end": {`score_fn = "gsm8k"`, `{"prompt": [{"role": "user", "content": "2"}, {"role": "assistant", "content": "4"}], "answer": "4"}`, "the last message of a prompt has the role user", errext.Input},
		"no program":         {`score_fn = "exec:./missing"`, `{"question": "2+2?", "answer": "4"}`, "missing", errext.Env},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "rows.jsonl", c.row+"\n")
			writeFile(t, dir, "run.toml", "[model]\npath = 'm'\n[[env]]\nname = 'sums'\nkind = 'prompt'\ntasks = 'rows.jsonl'\nval_tasks = 'rows.jsonl'\n"+c.keys+"\n")
			s := openaitest.Serve(t, walker)
			code, _, stderr := inProcess(t, dir, "eval", "run.toml", "--base-url", s.URL, "--api-model", "small")
			if code != int(c.code) || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, want %d, and %q in\n%s", code, c.code, c.want, stderr)
			}
			if n := len(s.Requests()); n > 1 {
				t.Errorf("%d replies were generated", n-1)
			}
		})
	}
}

// TestFailingScorerEndsThePlay checks that a program that fails ends the command, and that its words are shown.
func TestFailingScorerEndsThePlay(t *testing.T) {
	dir := t.TempDir()
	sums(t, dir, "rows.jsonl", 0, 3)
	writeFile(t, dir, "run.toml", "[model]\npath = 'm'\n[[env]]\nname = 'sums'\nkind = 'prompt'\ntasks = 'rows.jsonl'\nval_tasks = 'rows.jsonl'\nscore_fn = '''exec:python3 -c 'import sys; sys.stdin.readline(); sys.exit(\"no gold\")' '''\n")
	s := openaitest.Serve(t, walker)
	code, _, stderr := inProcess(t, dir, "eval", "run.toml", "--base-url", s.URL, "--api-model", "small")
	if code != int(errext.Env) || !strings.Contains(stderr, "no gold") || !strings.Contains(stderr, "score the reply to task sums_") {
		t.Errorf("exit code %d, want %d\n%s", code, errext.Env, stderr)
	}
}
