package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestResumeWithOtherInputs checks that a run cannot be resumed if the content of a task file, an instruction, a
// conversation, a score function or the reference model has changed.
func TestResumeWithOtherInputs(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	rows := func(name string, ids ...string) {
		text := ""
		for _, id := range ids {
			text += `{"item_id":"maze_` + id + `","conversations":[{"from":"human","value":"Walk."},{"from":"gpt","value":"Action: move up"}]}` + "\n"
		}
		writeFile(t, dir, name, text)
	}
	const judge = `while read -r line; do n=${line#*\"request\":}; echo "{\"request\":${n%%,*},\"scores\":[0.5]}"; done`
	const instruction = "Walk to the goal."
	files := map[string]func(changed bool){
		"env.maze.tasks":     func(changed bool) { rows("tasks.jsonl", "18", map[bool]string{false: "17", true: "12"}[changed]) },
		"env.maze.val_tasks": func(changed bool) { rows("val.jsonl", map[bool]string{false: "3", true: "4"}[changed]) },
		"env.maze.instruction": func(changed bool) {
			writeFile(t, dir, "instruction.txt", instruction+map[bool]string{true: " Now."}[changed])
		},
		"judge.sh": func(changed bool) { writeFile(t, dir, "judge.sh", judge+map[bool]string{true: "\n# other"}[changed]) },
	}
	for _, write := range files {
		write(false)
	}
	writeFile(t, dir, "run.toml", tinyRun)
	train := func(steps string, more ...string) (errext.ExitCode, string) {
		args := []string{"train", "run.toml"}
		for _, set := range slices.Concat([]string{
			"model.fresh.layers=0", "model.fresh.walks=0", "model.path=m", "env.expert_tasks=[]", "sft.epochs=0", `env.tasks=["tasks.jsonl"]`, `env.val_tasks=["val.jsonl"]`,
			"env.instruction_file=instruction.txt", "reward.score_fn=exec:sh judge.sh", "reward.score_batch_size=1", "actor.use_kl_loss=true", "actor.kl_loss_coef=0.1",
			"rollout.max_context_tokens=2048", "data.max_prompt_tokens=1500", "trainer.total_steps=" + steps, "trainer.save_every=1", "trainer.test_every=0", "trainer.val_before_train=false",
		}, more) {
			args = append(args, "--set", set)
		}
		code, _, stderr := inProcess(t, dir, args...)
		return errext.ExitCode(code), stderr
	}
	if code, stderr := train("1"); code != errext.OK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for key, write := range files {
		write(true)
		if code, stderr := train("2"); code != errext.Input {
			t.Errorf("%s: exit code %d\n%s", key, code, stderr)
		} else {
			mustContain(t, key, stderr, key+": ", " -> ", "step_000001", "give trainer.experiment another name")
		}
		write(false)
	}

	// Another model replaces the model at the path. The policy comes from the checkpoint,
	// but the reference would differ, so the run must not resume.
	other := tinyModel(t)
	weights := read(t, other, "model.safetensors")
	weights[len(weights)-1] ^= 1 << 6 // flip a bit of an exponent
	writeFile(t, other, "model.safetensors", string(weights))
	relink(t, other, dir, "m")
	code, stderr := train("2")
	if code != errext.Input {
		t.Errorf("with another reference: exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "the reference of the KL")
	relink(t, tinyModel(t), dir, "m")
	if code, stderr := train("2"); code != errext.OK {
		t.Errorf("with the original inputs: exit code %d\n%s", code, stderr)
	}
}

// relink points a link to another target.
func relink(t *testing.T, to, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	link(t, to, dir, name)
}
