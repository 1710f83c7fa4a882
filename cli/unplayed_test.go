package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// mazeRow and craftRow are rows of two environments with one recorded conversation each.
const (
	mazeRow  = `{"item_id":"maze_17","conversations":[{"from":"human","value":"Go."},{"from":"gpt","value":"Action:\nmove up","loss":true}]}` + "\n"
	craftRow = `{"item_id":"textcraft_3","conversations":[{"from":"human","value":"Craft."},{"from":"gpt","value":"Action:\nget 1 log","loss":true}]}` + "\n"
)

// filesOnly is a configuration of supervised training on files, without an environment.
const filesOnly = `
[model]
path = "tiny"
device = "cpu"
compute_dtype = "float32"
[sft]
files = ["pairs.jsonl"]
prompt_key = "question"
response_key = "answer"
epochs = 2
train_batch_size = 2
micro_batch_size = 1
max_length = 256
[trainer]
experiment = "alone"
val_before_train = false
test_every = 0
`

// TestSFTWithoutAnEnvironment checks that supervised training on files needs no [[env]] table, and that commands that
// play reject such a configuration.
func TestSFTWithoutAnEnvironment(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "tiny")
	writeFile(t, dir, "run.toml", filesOnly)
	writeFile(t, dir, "pairs.jsonl", `{"question":"say up","answer":"up"}`+"\n"+`{"question":"say down","answer":"down"}`+"\n")
	writeFile(t, dir, "conversations.jsonl", mazeRow+craftRow+`{"conversations":[{"from":"human","value":"Hi."},{"from":"gpt","value":"Ho."}]}`+"\n")
	writeFile(t, dir, "questions.jsonl", `{"conversations":[{"from":"human","value":"Anybody?"}]}`+"\n")
	writeFile(t, dir, "long.jsonl", `{"question":"count","answer":"`+strings.Repeat("one ", 1100)+`"}`+"\n")
	conversations := []string{"--set", "sft.prompt_key=", "--set", "sft.response_key=", "--set", "trainer.experiment=conversations"}
	type want struct {
		code           errext.ExitCode
		stdout, stderr []string
	}
	other := func() {
		writeFile(t, dir, "pairs.jsonl", `{"question":"say up","answer":"up"}`+"\n"+`{"question":"say down","answer":"no"}`+"\n")
	}
	for _, tt := range []struct {
		name string
		args []string
		want want
	}{
		{"check", []string{"config", "check", "run.toml"}, want{stdout: []string{"run.toml: ok for openmanus sft"}}},
		{"pairs", []string{"sft", "run.toml"}, want{0, []string{"alone-sft: 2 steps", "openmanus serve "}, []string{" rows=2 "}}},
		{"again", []string{"sft", "run.toml", "--set", "sft.epochs=3"}, want{stdout: []string{"alone-sft: 3 steps"}}},
		{"changed", []string{"sft", "run.toml", "--set", "sft.train_batch_size=1"},
			want{errext.Input, nil, []string{"sft.train_batch_size: 2 -> 1", "to start from these weights, also set model.path to the checkpoint's actor folder\n"}}},
		{"other rows", []string{"sft", "run.toml", "--set", "sft.epochs=4"}, want{errext.Input, nil, []string{"sft.files: ", " -> ", "give trainer.experiment another name"}}},
		{"conversations", append([]string{"sft", "run.toml", "--set", "sft.files=conversations.jsonl", "--set", "sft.val_files=conversations.jsonl", "--set", "trainer.best_metric=loss"}, conversations...),
			want{0, []string{"conversations-sft: 4 steps"}, []string{"supervised training", " rows=3 ", "supervised validation"}}},
		{"no replies", append([]string{"sft", "run.toml", "--set", "sft.files=questions.jsonl", "--set", "trainer.resume=never"}, conversations...),
			want{errext.Input, nil, []string{"task none:0: its conversation has no message of the assistant"}}},
		{"longer than the model", []string{"sft", "run.toml", "--set", "sft.files=long.jsonl", "--set", "sft.max_length=8192", "--set", "trainer.resume=never"},
			want{errext.Input, nil, []string{"task long.jsonl:0 has ", "the model 4096 positions", "set sft.max_length to 4096 or less"}}},
		{"train", []string{"train", "run.toml"}, want{errext.Input, nil, []string{"no environment to play in", "add a table [[env]]", "`openmanus sft` accepts"}}},
		{"eval", []string{"eval", "--model", "tiny", "run.toml"}, want{errext.Input, nil, []string{"no environment to play in"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "other rows" {
				other()
			}
			code, stdout, stderr := inProcess(t, dir, tt.args...)
			if code != int(tt.want.code) {
				t.Fatalf("exit code %d, want %d:\n%s", code, tt.want.code, stderr)
			}
			mustContain(t, "stdout", stdout, tt.want.stdout...)
			mustContain(t, "stderr", stderr, tt.want.stderr...)
			if tt.want.code != 0 && strings.Contains(stderr, "raise sft.max_length") {
				t.Errorf("stderr suggests raising sft.max_length:\n%s", stderr)
			}
		})
	}
}
