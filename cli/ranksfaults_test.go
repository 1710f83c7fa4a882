package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestErrorBeforeACollective checks that an error of one process, after which the others would begin a collective on tensors, ends all
// processes with its exit code and one message.
func TestErrorBeforeACollective(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts processes")
	}
	tiny := tinyModel(t)
	t.Parallel()
	for name, c := range map[string]struct {
		damaged string // name of the model of which rank 1 has a damaged copy
		file    string
		damage  func(t *testing.T, file string)
		args    []string
	}{
		"a reference, before the copy of divided weights for the critic": {"ref", "model.safetensors", renameTensor, []string{"train", "run.toml",
			"--set", "model.path=m", "--set", "model.fresh.layers=0", "--set", "model.fresh.walks=0", "--set", "sft.epochs=0", "--set", "env.maze.expert_tasks=[]",
			"--set", "ref.path=ref", "--set", "algo.use_kl_in_reward=true", "--set", "algo.adv_estimator=gae", "--set", "critic.mini_batch_size=0",
			"--set", "dist.shard=weights", "--set", "dist.timeout_s=60"}},
		"a model, before the exchange of the KV cache's size": {"m", "tokenizer_config.json", removeTemplate, []string{"eval", "--model", "m", "--device", "cpu", "--env", "maze", "--tasks", "17"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared, variables := t.TempDir(), torchrun(freePort(t))
			var ps []*process
			for rank := range 2 {
				dir := t.TempDir()
				writeFile(t, dir, "run.toml", learningRun)
				for _, name := range []string{"m", "ref"} {
					if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(tiny)); err != nil {
						t.Fatal(err)
					}
				}
				if file := filepath.Join(dir, c.damaged, c.file); rank == 1 {
					c.damage(t, file)
				}
				args := c.args
				if args[0] == "train" {
					args = append(args[:len(args):len(args)], "--set", "trainer.output_dir="+shared)
				}
				ps = append(ps, started(t, dir, variables(rank, 2), args...))
			}
			messages := 0
			for rank, p := range ps {
				if code := p.code(t); code != int(errext.Model) {
					t.Errorf("rank %d: exit code %d, want %d", rank, code, errext.Model)
				}
				messages += strings.Count(p.out.String(), "openmanus: ")
			}
			if !strings.Contains(ps[0].out.String(), "rank 1 of 2 (process ") || messages != 1 {
				t.Errorf("%d messages, want one of rank 1\nrank 0:\n%s\nrank 1:\n%s", messages, &ps[0].out, &ps[1].out)
			}
		})
	}
}

// renameTensor renames the last norm in a file of safetensors.
func renameTensor(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil || bytes.Count(b, []byte(`"model.norm.weight"`)) != 1 {
		t.Fatalf("%s has no norm (%v)", file, err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("model.norm.weight"), []byte("model.gone.weight"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// removeTemplate removes the chat template.
func removeTemplate(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
}
