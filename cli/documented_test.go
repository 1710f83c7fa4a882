package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/torch"
)

// docRun is a documented command and the folder that it runs in.
type docRun struct {
	dir    string
	args   []string
	stdin  string
	stdout string
	env    map[string]string // the variables that the command sees
}

// has reports whether the documented command has a flag.
func (r *docRun) has(flag string) bool {
	return slices.ContainsFunc(r.args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// need adds a flag if the documented command lacks it.
func (r *docRun) need(flag, value string) {
	if !r.has(flag) {
		r.args = append(r.args, flag, value)
	}
}

// set adds --set flags.
func (r *docRun) set(pairs ...string) {
	for _, p := range pairs {
		r.args = append(r.args, "--set", p)
	}
}

// value returns the value of a flag.
func (r *docRun) value(flag string) string {
	for i, a := range r.args {
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			return v
		}
		if a == flag && i+1 < len(r.args) {
			return r.args[i+1]
		}
	}
	return ""
}

// first returns the first word of the command if it is not a flag, or else "". Call it before adding flags.
func (r *docRun) first() string {
	if len(r.args) > 0 && !strings.HasPrefix(r.args[0], "-") {
		return r.args[0]
	}
	return ""
}

// leading returns the arguments before the flags. If the documented command has none, it first adds defaults.
func (r *docRun) leading(defaults ...string) []string {
	if r.first() == "" {
		r.args = append(defaults, r.args...)
	}
	n := slices.IndexFunc(r.args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if n < 0 {
		n = len(r.args)
	}
	return r.args[:n]
}

// dataFiles writes files with two rows each. A file whose name contains "episodes" or "rollouts" is a dump.
func (r *docRun) dataFiles(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var episodes []*data.Episode
		text := ""
		for i := 1; i <= 2; i++ {
			task := data.Task{ID: fmt.Sprintf("maze_%d", i), Env: "maze", Index: i}
			text += fmt.Sprintf(`{"item_id":%q,"conversations":[{"from":"human","value":"u"},{"from":"gpt","value":"Action: move left","loss":true}]}`+"\n", task.ID)
			episodes = append(episodes, &data.Episode{
				Task: task, Tokens: []int32{1, 2}, Mask: []uint8{0, 1}, LogProbs: []float32{0, -1}, Outcome: data.Success, Reward: 1,
				Turns:    []data.Turn{{Start: 1, End: 2, Text: "Action: move left", Action: "move left", Parsed: true, Reward: 1, Done: true}},
				Messages: []data.Message{{Role: "user", Content: "u"}, {Role: "assistant", Content: "Action: move left"}},
			})
		}
		if strings.Contains(name, "episodes") || strings.Contains(name, "rollouts") {
			if err := dump.WriteFile(path, dump.Header{}, episodes); err != nil {
				t.Fatal(err)
			}
			continue
		}
		writeFile(t, r.dir, name, text)
	}
}

// runFolders copies a finished run of two steps to the given paths.
func (r *docRun) runFolders(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		copyRun(t, filepath.Join(r.dir, name))
	}
}

// copyRun copies a finished run of two steps, which has no log, to the folder dir.
func copyRun(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS("testdata/before/runs/tiny")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "checkpoints", "step_000002", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "config.toml", string(config))
}

// completeFresh reduces the training of a fresh model to about a second.
func (r *docRun) completeFresh(t *testing.T) {
	if file := r.first(); file != "" {
		writeFile(t, r.dir, file, tinyRun)
	}
	r.limitRun()
	r.set("sft.epochs=1", "sft.micro_batch_size=1", "model.path=", "model.fresh.layers=1", "model.fresh.hidden_size=32",
		"model.fresh.intermediate_size=64", "model.fresh.heads=2", "model.fresh.kv_heads=1", "model.fresh.walks=0", "env.maze.expert_tasks=17")
}

// limitRun reduces the number of steps, tasks and tokens.
func (r *docRun) limitRun() {
	r.set("trainer.total_steps=1", "env.maze.tasks=18,17", "env.maze.val_tasks=16", "env.maze.max_turns=2", "data.train_batch_size=2", "rollout.group_size=2", "rollout.val.group_size=1",
		"rollout.max_new_tokens=8", "model.device=cpu")
}

// recordDump records a small dump with the tiny model, which it links as my-model.
func (r *docRun) recordDump(t *testing.T, tiny, dump string) {
	t.Helper()
	link(t, tiny, r.dir, "my-model")
	code, _, stderr := inProcess(t, r.dir, "rollout", "--model", "my-model", "--env", "maze", "--tasks", "17,18", "--samples", "2", "--max-turns", "2",
		"--max-new-tokens", "8", "--dump", dump)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
}

// completeTraining adds the files and settings that a documented training command needs.
func (r *docRun) completeTraining(t *testing.T, tiny string) {
	t.Helper()
	dump := r.value("--from-dump")
	if dump == "" {
		r.completeFresh(t)
		return
	}
	if file := r.first(); file != "" {
		writeFile(t, r.dir, file, tinyRun)
	}
	r.recordDump(t, tiny, dump)
	r.limitRun()
	r.set("model.fresh.layers=0", "model.path=my-model")
	if !strings.HasPrefix(t.Name(), "TestDocumentedCommands/sft") {
		r.set("sft.epochs=0")
		return
	}
	r.set("sft.epochs=1", "sft.dump_success=false", "sft.dump_min_reward=-100", "sft.max_length=1024", "sft.train_batch_size=4", "sft.micro_batch_size=1")
}

// completePlay adds the flags that a documented command needs to play tasks, with a model or with a fake endpoint.
func (r *docRun) completePlay(t *testing.T, tiny string) {
	if i := slices.Index(r.args, "--base-url"); i >= 0 {
		r.args[i+1] = openaitest.Serve(t, walker).URL
	} else {
		r.need("--model", "my-model")
		link(t, tiny, r.dir, r.value("--model"))
	}
	r.need("--env", "maze")
	r.need("--tasks", "17,18")
	r.args = append(r.args, "--max-turns", "2", "--max-new-tokens", "8")
}

// addCheckout creates the fake checkout of AgentGym that a documented command names.
func (r *docRun) addCheckout(t *testing.T) {
	t.Helper()
	r.need("--checkout", "AgentGym")
	r.need("--python", fakeCheckout(t, r.dir, r.value("--checkout")))
}

// link links the tiny model to the path that a documented command names.
func link(t *testing.T, tiny, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tiny, path); err != nil {
		t.Fatal(err)
	}
}

// one returns the contents of the only file that matches a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s matches %v (%v), want one file", pattern, names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil || len(b) == 0 {
		t.Fatalf("%s is empty (%v)", names[0], err)
	}
	return string(b)
}

func checkRun(run string) func(*testing.T, *docRun) {
	return func(t *testing.T, r *docRun) {
		mustContain(t, "stdout", r.stdout, "Next:", "openmanus eval --model")
		if r.has("--from-dump") { // a run from a dump does not validate
			mustContain(t, "metrics", one(t, r.dir, "runs/"+run+"/metrics.jsonl"), `"step":1`)
			one(t, r.dir, "runs/"+run+"/checkpoints/step_000001/actor/model.safetensors")
			return
		}
		mustContain(t, "metrics", one(t, r.dir, "runs/"+run+"/metrics.jsonl"), "val/maze/success_rate", "train/loss")
		mustContain(t, "run.log", one(t, r.dir, "runs/"+run+"/run.log"), `"msg":"run"`, `"msg":"the run ended"`)
		one(t, r.dir, "runs/"+run+"/checkpoints/step_000001/actor/model.safetensors")
		one(t, r.dir, "runs/"+run+"/rollouts/val_after_maze.jsonl")
	}
}

// documented maps each command that a page may contain to a function that completes the arguments and a function that
// checks the output. A page with another command fails the test.
var documented = map[string]struct {
	complete func(t *testing.T, r *docRun, tiny string)
	check    func(t *testing.T, r *docRun)
}{
	"train": {func(t *testing.T, r *docRun, tiny string) { r.completeTraining(t, tiny) }, checkRun("*")},
	"sft":   {func(t *testing.T, r *docRun, tiny string) { r.completeTraining(t, tiny) }, checkRun("*-sft")},
	"env install": {
		func(t *testing.T, r *docRun, _ string) {
			if r.first() == "" {
				r.args = append([]string{"textcraft"}, r.args...)
			}
			r.addCheckout(t)
		},
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "virtual environment at", "Next: openmanus env up "+r.first())
			one(t, r.dir, filepath.Join(r.value("--checkout"), "*", ".venv", "bin", "python"))
		},
	},
	"eval": {
		func(t *testing.T, r *docRun, tiny string) {
			if file := r.first(); file != "" {
				writeFile(t, r.dir, file, tinyRun)
			}
			if r.has("--launch") {
				r.addCheckout(t)
				r.need("--base-port", strconv.Itoa(listentest.Ports(t, 1)))
			}
			r.completePlay(t, tiny)
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "success", "turn") },
	},
	"eval compare": {
		func(t *testing.T, r *docRun, _ string) {
			for i, file := range r.leading("a.json", "b.json") {
				code, _, stderr := inProcess(t, r.dir, "eval", "--base-url", openaitest.Serve(t, walker).URL, "--api-model", "m", "--env", "maze",
					"--tasks", "17,18", "--max-turns", strconv.Itoa(2+i), "--out", file)
				if code != 0 {
					t.Fatalf("exit code %d\n%s", code, stderr)
				}
			}
			r.args = append(r.args, "--anyway")
		},
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "2 tasks in both", "success_rate", "max_turns")
		},
	},
	"rollout": {
		func(t *testing.T, r *docRun, tiny string) {
			r.need("--dump", "episodes.jsonl")
			r.completePlay(t, tiny)
			if r.has("--tasks") && r.has("--samples") {
				r.args = append(r.args, "--tasks", "17,18", "--samples", "2")
			}
		},
		func(t *testing.T, r *docRun) {
			if strings.HasSuffix(r.value("--dump"), ".zst") {
				if n := len(readDump(t, filepath.Join(r.dir, r.value("--dump")))); n < 2 {
					t.Errorf("%d episodes", n)
				}
				return
			}
			lines := strings.Split(strings.TrimSpace(one(t, r.dir, r.value("--dump"))), "\n")
			if r.has("--base-url") && len(lines) >= 3 && strings.Contains(lines[1], `"ids":[]`) {
				return // episodes of an endpoint have no token ids
			}
			if len(lines) < 3 || !strings.Contains(lines[1], `"logprobs":[`) || !strings.Contains(lines[1], `"exchanges":[{`) {
				t.Errorf("the dump has %d lines: %.200s", len(lines), lines)
			}
		},
	},
	"replay": {
		func(t *testing.T, r *docRun, tiny string) { r.recordDump(t, tiny, r.leading("episodes.jsonl")[0]) },
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, r.first(), "differ") },
	},
	"generate": {
		func(t *testing.T, r *docRun, tiny string) {
			files := r.leading("prompts.jsonl", "replies.jsonl")
			writeFile(t, r.dir, files[0], `{"data_source":"openai/gsm8k","prompt":"2+2?","reward_model":{"ground_truth":"4"}}`+"\n")
			r.need("--model", "my-model")
			r.args = append(r.args, "--max-new-tokens", "4")
			link(t, tiny, r.dir, r.value("--model"))
		},
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "1 rows x", "Next: openmanus score")
			mustContain(t, "the output", one(t, r.dir, r.leading()[1]), `"prompt":"2+2?"`, `"responses":[`, `"responses_tokens":[`)
		},
	},
	"score": {
		func(t *testing.T, r *docRun, _ string) {
			r.need("--score-fn", "gsm8k")
			if path := r.value("--reward-model"); path != "" {
				link(t, tinyRewardModel(t, 1), r.dir, path)
			}
			writeFile(t, r.dir, r.leading("replies.jsonl")[0],
				`{"data_source":"openai/gsm8k","prompt":"What is 2 + 2?","reward_model":{"ground_truth":"4"},"responses":["#### 4","#### 5"],"responses_tokens":[3,3]}`+"\n")
			if config := r.value("--config"); config != "" {
				writeFile(t, r.dir, config, tinyRun)
			}
		},
		func(t *testing.T, r *docRun) {
			want := []string{"mean@2", "0.5", "pass@2"}
			if r.has("--reward-model") {
				want = []string{"mean@2", "best@2", "reward/model/mean", "reward/model/tokens"}
			}
			mustContain(t, "stdout", r.stdout, want...)
		},
	},
	"chat": {
		func(t *testing.T, r *docRun, tiny string) {
			if r.first() == "" {
				r.args = append([]string{"my-model"}, r.args...)
			}
			link(t, tiny, r.dir, r.first())
			r.stdin = "hello\n"
			r.args = append(r.args, "--max-new-tokens", "8")
		},
		func(t *testing.T, r *docRun) {
			if r.stdout == "" {
				t.Error("no reply")
			}
		},
	},
	"model fetch": {
		func(t *testing.T, r *docRun, tiny string) {
			s := hubtest.New(t)
			id := strings.Join(strings.Split(r.leading("acme/tiny")[0], "/")[:2], "/")
			s.AddFolder(t, id, tiny)
			if strings.HasSuffix(id, "-GGUF") {
				s.Add(id, hubtest.Repo{Files: map[string][]byte{"qwen2.5-0.5b-instruct-q8_0.gguf": []byte("GGUF")}})
			}
			r.env = s.Environment("hub")
		},
		func(t *testing.T, r *docRun) {
			path := strings.TrimSpace(r.stdout)
			if filepath.Ext(path) != ".gguf" {
				path = filepath.Join(path, "model.safetensors")
			}
			if st, err := os.Stat(path); err != nil || st.Size() == 0 {
				t.Errorf("%s: %v", path, err)
			}
		},
	},
	"play": {
		func(t *testing.T, r *docRun, tiny string) {
			if name := r.first(); name != "" {
				link(t, tiny, r.dir, name)
			} else if !r.has("--me") {
				r.args = append([]string{"my-model"}, r.args...)
				link(t, tiny, r.dir, "my-model")
			}
			r.need("--env", "maze")
			r.stdin = "move down\nmove down\n" // solves task 17
			r.args = append(r.args, "--max-turns", "3", "--max-new-tokens", "8")
		},
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "maze, task", "turn 1, you: Action: move down")
			if file := r.value("--dump"); file != "" {
				one(t, r.dir, file)
			}
		},
	},
	"model info": {
		func(t *testing.T, r *docRun, tiny string) {
			if r.first() == "" && !r.has("--model") {
				r.args = append([]string{"my-model"}, r.args...)
			}
			link(t, tiny, r.dir, max(r.first(), r.value("--model")))
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "llama") },
	},
	"model convert": {
		func(t *testing.T, r *docRun, tiny string) {
			if r.first() == "" {
				r.args = append([]string{"my-model", "copy"}, r.args...)
			}
			link(t, tiny, r.dir, r.first())
		},
		func(t *testing.T, r *docRun) {
			if r.value("--to") == "gguf" {
				if text := one(t, r.dir, r.args[1]); !strings.HasPrefix(text, "GGUF") {
					t.Errorf("%s is not a GGUF file", r.args[1])
				}
				return
			}
			for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
				one(t, r.dir, filepath.Join(r.args[1], name))
			}
		},
	},
	"model logprobs": {
		func(t *testing.T, r *docRun, tiny string) {
			r.need("--model", "my-model")
			link(t, tiny, r.dir, r.value("--model"))
			r.stdin = `{"ids":[72,105,33]}` + "\n" + `{"text":"Hello"}` + "\n"
		},
		func(t *testing.T, r *docRun) {
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			for i, n := range []int{2, 4} {
				var got struct{ LogProbs []float64 }
				if i >= len(lines) || json.Unmarshal([]byte(lines[i]), &got) != nil || len(got.LogProbs) != n {
					t.Errorf("line %d does not have %d log-probs:\n%s", i, n, r.stdout)
				}
			}
		},
	},
	"env list": {nil, func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "maze", "textcraft") }},
	"env new": {named, func(t *testing.T, r *docRun) {
		one(t, r.dir, filepath.Join(r.first(), "server.py"))
		mustContain(t, "stdout", r.stdout, "Next:", "env check", "train "+r.first()+"/config.toml")
	}},
	"reward new": {named, func(t *testing.T, r *docRun) {
		one(t, r.dir, filepath.Join(r.first(), "reward.py"))
		mustContain(t, "stdout", r.stdout, "Next:", "score_fn = \"exec:python3 "+r.first()+"/reward.py\"")
	}},
	"env check": {startServer, func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "two sessions") }},
	"config init": {nil, func(t *testing.T, r *docRun) {
		text := r.stdout
		if r.first() != "" {
			text = one(t, r.dir, r.first())
		}
		if _, err := schema.Load("init", []byte(text), nil); err != nil {
			t.Errorf("the output is not a configuration: %v", err)
		}
	}},
	"config show": {
		func(t *testing.T, r *docRun, _ string) {
			if file := r.first(); file != "" {
				writeFile(t, r.dir, file, tinyRun)
			}
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "[trainer]", "[[env]]") },
	},
	"config check": {
		func(t *testing.T, r *docRun, _ string) {
			if r.first() == "" {
				r.args = append([]string{"my.toml"}, r.args...)
			}
			writeFile(t, r.dir, r.first(), tinyRun)
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, ": ok") },
	},
	"config import": {
		func(t *testing.T, r *docRun, _ string) {
			file := r.leading("train_ppo.sh")[0]
			if strings.Contains(file, "=") {
				return
			}
			script, err := os.ReadFile("../configs/hydra/testdata/train_ppo.sh")
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, r.dir, file, string(script))
		},
		func(t *testing.T, r *docRun) {
			text := r.stdout
			if r.has("--out") {
				text = one(t, r.dir, r.value("--out"))
			}
			mustContain(t, "the configuration", text, "# Imported from", "[trainer]")
		},
	},
	"data info": {
		func(t *testing.T, r *docRun, _ string) { r.dataFiles(t, r.leading("train.parquet")...) },
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "maze", r.first()) },
	},
	"data head": {
		func(t *testing.T, r *docRun, _ string) { r.dataFiles(t, r.leading("train.parquet")...) },
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "row 1: maze_2", "Action: move left")
		},
	},
	"data convert": {
		func(t *testing.T, r *docRun, tiny string) {
			files := r.leading("train.json", "out.parquet")
			r.dataFiles(t, files[:len(files)-1]...)
			if other := r.value("--exclude"); other != "" {
				writeFile(t, r.dir, other, `{"item_id":"maze_1"}`)
			}
			if r.has("--tokenizer") {
				link(t, tiny, r.dir, r.value("--tokenizer"))
			}
		},
		func(t *testing.T, r *docRun) {
			out := r.leading()[1]
			tasks, err := table.LoadTasks(t.Context(), filepath.Join(r.dir, out), table.LoadOptions{})
			if err != nil || tasks[len(tasks)-1].ID != "maze_2" || len(tasks[0].Conversation) != 2 {
				t.Errorf("%s: %+v, %v", out, tasks, err)
			}
			mustContain(t, "stdout", r.stdout, out+": ")
		},
	},
	"view": {
		func(t *testing.T, r *docRun, _ string) {
			path := r.leading("episodes.jsonl")[0]
			if filepath.Ext(path) == "" {
				path = filepath.Join(path, "rollouts", "step_"+cmp.Or(r.value("--step"), "1")+".jsonl")
			}
			r.dataFiles(t, path)
		},
		func(t *testing.T, r *docRun) {
			text := r.stdout
			if r.has("--html") {
				text = one(t, r.dir, r.value("--html"))
			}
			mustContain(t, "stdout", text, "maze_1", "success")
		},
	},
	"report": {
		func(t *testing.T, r *docRun, _ string) { r.runFolders(t, r.leading("runs/tiny")...) },
		func(t *testing.T, r *docRun) {
			if r.has("--html") {
				mustContain(t, "page", one(t, r.dir, r.value("--html")), "<h2 id=\"h-validations\">Validations</h2>", "trainer.experiment")
				return
			}
			mustContain(t, "stdout", r.stdout, "episode/success_rate", "95% interval", "playing")
		},
	},
	"runs": {
		func(t *testing.T, r *docRun, _ string) {
			r.runFolders(t, filepath.Join(cmp.Or(r.first(), "runs"), "tiny"))
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "tiny", "finished", "2/2") },
	},
	"runs compare": {
		func(t *testing.T, r *docRun, _ string) { r.runFolders(t, r.leading("runs/a", "runs/b")...) },
		func(t *testing.T, r *docRun) {
			mustContain(t, "stdout", r.stdout, "0 settings differ", "last validations")
		},
	},
	"export": {
		func(t *testing.T, r *docRun, _ string) {
			for _, run := range r.leading("runs/quickstart") {
				if err := os.MkdirAll(filepath.Join(r.dir, run), 0o755); err != nil {
					t.Fatal(err)
				}
				writeFile(t, r.dir, filepath.Join(run, "metrics.jsonl"), `{"step":1,"phase":"train","time":1790000000,"x":1}`+"\n")
			}
			r.env = map[string]string{"MLFLOW_TRACKING_URI": serveMLflow(t)}
			r.need("--to", "csv")
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "1 line to "+r.value("--to")) },
	},
	"cache list": {
		func(_ *testing.T, r *docRun, _ string) { r.env = map[string]string{"OPENMANUS_CACHE": r.dir} },
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "no unpacked programs in "+r.dir) },
	},
	"cache prune": {
		func(_ *testing.T, r *docRun, _ string) { r.env = map[string]string{"OPENMANUS_CACHE": r.dir} },
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "no unpacked programs in "+r.dir) },
	},
	"completion": {
		func(t *testing.T, r *docRun, _ string) {
			if r.leading("bash")[0] == "SHELL" {
				r.args[0] = "zsh"
			}
		},
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "openmanus", completionFlag) },
	},
	"man":    {nil, func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, ".TH", "train") }},
	"doctor": {nil, func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "libtorch_cpu.so", "disk of runs") }},
	"plan": {
		func(t *testing.T, r *docRun, _ string) { r.completeFresh(t) },
		func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, "KV cache", "policy update") },
	},
	"version": {nil, func(t *testing.T, r *docRun) { mustContain(t, "stdout", r.stdout, Version) }},
}

// named adds the name of what is written if the documented command has none.
func named(_ *testing.T, r *docRun, _ string) { r.leading("lift") }

// checkNext runs the command that a finished run suggests.
func checkNext(t *testing.T, r *docRun) {
	t.Helper()
	_, next, _ := strings.Cut(r.stdout, "Next:")
	n := 0
	for _, words := range shellLines(next) {
		if words[0] != "openmanus" {
			continue
		}
		args := words[1:]
		if args[0] == "eval" {
			args = slices.Insert(args, 1, "--max-new-tokens", "8")
		}
		if code, _, stderr := inProcess(t, r.dir, args...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", words, code, stderr)
		}
		n++
	}
	if n < 2 {
		t.Errorf("no command is suggested:\n%s", r.stdout)
	}
}

// checkServe starts a documented server on a free port and requests its greeting.
func checkServe(t *testing.T, args []string) {
	t.Helper()
	if len(args) == 0 {
		args = []string{"maze"}
	}
	for name := range strings.SplitSeq(args[0], "|") {
		url, interrupt := startServe(t, append(append([]string{name}, args[1:]...), "--port", "0")...)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		reply, err := client.Get(url + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, reply.StatusCode)
		}
		if code := interrupt(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// checkUp starts documented servers on free ports and requests their greetings.
func checkUp(t *testing.T, args []string) {
	t.Helper()
	r := &docRun{dir: t.TempDir(), args: args}
	if r.first() == "" {
		r.args = append([]string{"textcraft"}, r.args...)
	}
	r.addCheckout(t)
	n := 1
	if v := r.value("--num-servers"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	r.need("--base-port", strconv.Itoa(listentest.Ports(t, n)))
	lines, interrupt := up(t, r.dir, n, r.args...)
	for _, line := range lines {
		_, url, _ := strings.Cut(line, " at ")
		greet(t, url)
	}
	if code := interrupt(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// tinyModel writes a model of one layer with a chat template.
func tinyModel(t *testing.T) string {
	t.Helper()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	var b *model.Bundle
	b, err = run.FreshModel(context.Background(), th, configs.Fresh{
		Layers: 1, HiddenSize: 32, IntermediateSize: 64, Heads: 2, KVHeads: 1, Vocabulary: "bytes",
	}, 4096, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.Save(context.Background(), dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	if st, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || !bytes.Contains(st, []byte("llama")) {
		t.Fatalf("no model was written: %v", err)
	}
	return dir
}
