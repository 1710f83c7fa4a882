package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

const dumpRun = `
[model]
path = "m"
device = "cpu"
compute_dtype = "float32"
[[env]]
name = "webshop"
tasks = "1"
[data]
train_batch_size = 2
max_prompt_tokens = 512
[rollout]
max_context_tokens = 1024
max_sequences = 2
[actor]
mini_batch_size = 0
micro_batch_size = 4
[actor.optim]
lr = 1e-3
[trainer]
experiment = "from"
`

// sftOfDump holds the flags for supervised training with the configuration dumpRun.
var sftOfDump = []string{"--set", "sft.epochs=1", "--set", "sft.train_batch_size=2", "--set", "sft.micro_batch_size=1"}

// dumpToTrain records twelve episodes of three tasks and marks the first two samples of each task as successes. It writes
// the dump and a configuration whose environment has no server.
func dumpToTrain(t *testing.T, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	writeFile(t, dir, "run.toml", dumpRun)
	if code, _, stderr := inProcess(t, dir, rolloutArgs("played.jsonl", more...)...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var episodes []*data.Episode
	src, err := table.ReadSource(t.Context(), filepath.Join(dir, "played.jsonl"), func(e *table.Entry) error {
		ep := e.Episode
		if ep.Sample < 2 {
			ep.Outcome, ep.Reward = data.Success, 1
			ep.Turns[len(ep.Turns)-1].Reward = 1
		}
		episodes = append(episodes, ep)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "d.jsonl"), src.Header, episodes)
	return dir
}

// lastMetrics returns the last line of a run's metrics with a key.
func lastMetrics(t *testing.T, dir, run, key string) map[string]float64 {
	t.Helper()
	var found map[string]float64
	err := track.Read(filepath.Join(dir, "runs", run, "metrics.jsonl"), func(l track.Line) error {
		if _, ok := l.Metrics[key]; ok {
			found = l.Metrics
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		t.Fatalf("no line of the metrics has %s", key)
	}
	return found
}

// TestTrainFromDump checks that a run trains on the three groups of a dump in two steps. The first step is on policy.
func TestTrainFromDump(t *testing.T) {
	dir := dumpToTrain(t)
	code, stdout, stderr := inProcess(t, dir, "train", "run.toml", "--from-dump", "d.jsonl", "--set", "trainer.total_steps=1")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "from-dump: 1 step\n")
	m := lastMetrics(t, dir, "from-dump", "actor/updated_rows")
	if m["actor/updated_rows"] != 8 || m["actor/grad_norm"] == 0 {
		t.Errorf("got an update of %g rows with gradient norm %g, want 8 rows and a gradient", m["actor/updated_rows"], m["actor/grad_norm"])
	}
	// The same weights sampled the episodes, so the ratio is 1 except for rounding.
	if kl, clipped := m["actor/ppo_kl"], m["actor/pg_clipfrac"]; kl > 1e-4 || kl < -1e-4 || clipped != 0 {
		t.Errorf("on policy: got KL %g and clip fraction %g, want 0", kl, clipped)
	}
	if bytes.Equal(read(t, dir, "m/model.safetensors"), read(t, dir, "runs/from-dump/checkpoints/step_000001/actor/model.safetensors")) {
		t.Error("training did not change the weights")
	}

	// The resumed run trains on the rest of the dump with changed weights.
	if code, _, stderr = inProcess(t, dir, "train", "run.toml", "--from-dump", "d.jsonl", "--set", "trainer.total_steps=9"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if m := lastMetrics(t, dir, "from-dump", "actor/updated_rows"); m["actor/updated_rows"] != 4 || m["actor/ppo_kl"] == 0 {
		t.Errorf("the second step: %v", m)
	}

	// Train on the dump with the weights of the first run, which did not play it.
	other := []string{"train", "run.toml", "--from-dump", "d.jsonl", "--set", "trainer.experiment=off", "--set", "model.path=runs/from-dump/checkpoints/step_000002/actor"}
	code, _, stderr = inProcess(t, dir, other...)
	if code != int(errext.Input) || !strings.Contains(stderr, "was played by sha256:") || !strings.Contains(stderr, "--off-policy") {
		t.Errorf("with other weights: exit code %d\n%s", code, stderr)
	}
	if code, _, stderr = inProcess(t, dir, append(other, "--off-policy")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if strings.Contains(stderr, "log-probs of sampling and training differ") {
		t.Errorf("an off-policy run reports a log-prob gap:\n%s", stderr)
	}
}

// TestDumpOfContextsFits checks that an episode of several contexts may have more tokens than the model has positions if
// each context fits.
func TestDumpOfContextsFits(t *testing.T) {
	dir := dumpToTrain(t, "--format", "history", "--max-context-tokens", "2000")
	config := string(read(t, dir, "m/config.json"))
	const positions = `"max_position_embeddings": `
	if !strings.Contains(config, positions+"4096") {
		t.Fatalf("want max_position_embeddings 4096 in config.json of the model:\n%s", config)
	}
	longest, whole := 0, 0
	if _, err := table.ReadSource(t.Context(), filepath.Join(dir, "d.jsonl"), func(e *table.Entry) error {
		whole = max(whole, len(e.Episode.Tokens))
		for _, s := range e.Episode.ContextSpans() {
			longest = max(longest, s[1]-s[0])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// A dump with invalid contexts.
	broken := strings.Replace(string(read(t, dir, "d.jsonl")), `"contexts":[0,`, `"contexts":[0,99999,`, 1)
	writeFile(t, dir, "broken.jsonl", broken)
	if code, _, stderr := inProcess(t, dir, "train", "run.toml", "--from-dump", "broken.jsonl"); code != int(errext.Input) || !strings.Contains(stderr, "context") {
		t.Errorf("with contexts beyond the last token: exit code %d\n%s", code, stderr)
	}
	for _, tt := range []struct {
		positions int
		code      errext.ExitCode
	}{{longest, errext.OK}, {longest - 1, errext.Input}} {
		if longest >= whole {
			t.Fatalf("the longest context has %d tokens, the longest episode %d; want longer episodes", longest, whole)
		}
		n := strconv.Itoa(tt.positions)
		writeFile(t, dir, "m/config.json", strings.Replace(config, positions+"4096", positions+n, 1))
		args := []string{"train", "run.toml", "--from-dump", "d.jsonl"}
		for _, set := range []string{"trainer.total_steps=1", "rollout.max_context_tokens=" + n, "data.max_prompt_tokens=64", "trainer.experiment=p" + n} {
			args = append(args, "--set", set)
		}
		code, _, stderr := inProcess(t, dir, args...)
		if code != int(tt.code) || code != 0 && !strings.Contains(stderr, "more than the model's "+n+" positions") {
			t.Errorf("%s positions: exit code %d\n%s", n, code, stderr)
		}
	}
}

// TestTrainFromTruncatedDump checks that a run trains on episodes sampled with top-p and top-k. The dump records the kept
// tokens, so the ratio is 1 and a replay reproduces the log-probs.
func TestTrainFromTruncatedDump(t *testing.T) {
	dir := dumpToTrain(t, "--top-p", "0.7", "--top-k", "20")
	if code, _, stderr := inProcess(t, dir, "train", "run.toml", "--from-dump", "d.jsonl", "--set", "trainer.total_steps=1"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	m := lastMetrics(t, dir, "from-dump", "actor/updated_rows")
	if kl, gap := m["actor/ppo_kl"], m["rollout/logprob_gap_mean"]; kl > 1e-4 || kl < -1e-4 || gap > 1e-4 || m["actor/pg_clipfrac"] != 0 {
		t.Errorf("on policy: got KL %g, log-prob gap %g and clip fraction %g, want 0", kl, gap, m["actor/pg_clipfrac"])
	}
	code, stdout, stderr := inProcess(t, dir, "replay", "played.jsonl", "--json")
	var report run.ReplayReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || report.Replayed == 0 || report.MaxGap > 1e-3 {
		t.Errorf("exit code %d, %v: %+v\n%s", code, err, report, stderr)
	}
}

func TestTrainFromDumpErrors(t *testing.T) {
	dir := dumpToTrain(t)
	writeFile(t, dir, "rows.jsonl", `{"item_id":"maze_1"}`)
	text := string(read(t, dir, "d.jsonl"))
	writeFile(t, dir, "single.jsonl", strings.Join(strings.SplitAfter(text, "\n")[:2], ""))
	writeFile(t, dir, "greedy.jsonl", strings.Replace(text, `"Greedy":false`, `"Greedy":true`, 1))
	writeFile(t, dir, "topk.jsonl", strings.Replace(text, `"TopK":0`, `"TopK":5`, 1)) // a dump of an earlier version, without the tokens that top-k kept
	_, rest, _ := strings.Cut(text, "\n")
	writeFile(t, dir, "rollouts.jsonl", `{"format":"openmanus-episodes","version":1,"weights":""}`+"\n"+rest)
	for _, tt := range []struct {
		args string
		code errext.ExitCode
		want string
	}{
		{"--from-dump gone.jsonl", errext.Input, "gone.jsonl"},
		{"--from-dump rows.jsonl", errext.Input, "not a dump"},
		{"--from-dump single.jsonl", errext.Input, "no task has two episodes"},
		{"--from-dump greedy.jsonl", errext.Input, "played greedily"},
		{"--from-dump topk.jsonl", errext.Input, "top-k or top-p"},
		{"--from-dump rollouts.jsonl", errext.Input, "lacks the settings"},
		{"--from-dump d.jsonl --set rollout.temperature=0.5", errext.Input, "temperature 1"},
		{"--from-dump d.jsonl --set sft.epochs=1", errext.Input, "set sft.epochs = 0"},
		{"--from-dump d.jsonl --set algo.adv_estimator=remax", errext.Input, "remax plays a greedy episode"},
		{"--from-dump d.jsonl --set algo.filter_groups=true", errext.Input, "algo.filter_groups: dynamic sampling"},
		{"--off-policy", errext.Input, "data.off_policy"},
		{"--from-dump d.jsonl --set sft.epochs=1 --set sft.val_files=rows.jsonl", errext.Input, "does not validate"},
	} {
		code, _, stderr := inProcess(t, dir, append([]string{"train", "run.toml"}, strings.Fields(tt.args)...)...)
		if code != int(tt.code) || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", tt.args, code, tt.code, tt.want, stderr)
		}
	}
	if code, _, stderr := inProcess(t, dir, "train", "--from-dump", "d.jsonl"); code != int(errext.Input) || !strings.Contains(stderr, "set model.path") {
		t.Errorf("the quickstart from a dump: exit code %d\n%s", code, stderr)
	}
}

// TestSFTFromDump checks that sft trains on the successful episodes of a dump, or on the episodes with a minimum reward.
func TestSFTFromDump(t *testing.T) {
	dir := dumpToTrain(t)
	for name, tt := range map[string]struct {
		sets []string
		rows string
	}{
		"success": {nil, " rows=6 "},
		"all":     {[]string{"sft.dump_success=false", "sft.dump_min_reward=-100"}, " rows=12 "},
	} {
		args := append([]string{"sft", "run.toml", "--from-dump", "d.jsonl", "--set", "trainer.experiment=" + name}, sftOfDump...)
		for _, set := range tt.sets {
			args = append(args, "--set", set)
		}
		code, _, stderr := inProcess(t, dir, args...)
		if code != 0 || !strings.Contains(stderr, tt.rows) {
			t.Fatalf("%s: exit code %d, want %s\n%s", name, code, tt.rows, stderr)
		}
		if m := lastMetrics(t, dir, name+"-dump-sft", "train/loss"); m["train/loss"] <= 0 || m["train/grad_norm"] == 0 {
			t.Errorf("%s: %v", name, m)
		}
	}

	// In a format with a new prompt every turn, each turn is a row.
	anew := dumpToTrain(t, "--format", "history")
	turns, size := 0, 0
	if _, err := table.ReadSource(t.Context(), filepath.Join(anew, "d.jsonl"), func(e *table.Entry) error {
		if e.Episode.Outcome == data.Success {
			turns += len(e.Episode.Turns)
			for _, span := range e.Episode.ContextSpans() {
				size = max(size, span[1]-span[0])
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := inProcess(t, anew, append([]string{"sft", "run.toml", "--from-dump", "d.jsonl", "--set", "sft.max_length=" + strconv.Itoa(size+64)}, sftOfDump...)...) // sampled random bytes become more tokens when they are decoded and encoded again
	if want := fmt.Sprintf(" rows=%d ", turns); code != 0 || turns <= 6 || !strings.Contains(stderr, want) {
		t.Errorf("with a new prompt every turn: exit code %d, want %s\n%s", code, want, stderr)
	}

	code, _, stderr = inProcess(t, dir, append([]string{"sft", "run.toml", "--from-dump", "d.jsonl", "--set", "sft.dump_success=false", "--set", "sft.dump_min_reward=2"}, sftOfDump...)...)
	if code != int(errext.Input) || !strings.Contains(stderr, "sft.dump_min_reward") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
