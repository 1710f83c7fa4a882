package cli

import (
	"strings"
	"testing"
)

// TestDerivedSettings checks that a run derives values for defaults that do not fit, reports them, and uses the same
// values after a resume.
func TestDerivedSettings(t *testing.T) {
	dir := t.TempDir()
	config := strings.NewReplacer("max_prompt_tokens = 512\n", "", "mini_batch_size = 0\n", "").Replace(tinyRun)
	writeFile(t, dir, "run.toml", config)
	code, stdout, stderr := inProcess(t, dir, "config", "check", "run.toml")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "config check", stdout, "derived: actor.mini_batch_size = 0, because 32 does not fit the 6 episodes of a step", "derived: data.max_prompt_tokens = 760, because 4096 does not fit rollout.max_context_tokens 768")
	_, stdout, _ = inProcess(t, dir, "config", "show", "run.toml")
	mustContain(t, "config show", stdout, "# derived: 4096 does not fit rollout.max_context_tokens 768\nmax_prompt_tokens = 760\n")
	for _, steps := range []string{"1", "2"} {
		code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "sft.epochs=4", "--set", "trainer.total_steps="+steps)
		if code != 0 {
			t.Fatalf("%s steps: exit code %d\n%s", steps, code, stderr)
		}
		mustContain(t, steps+" steps", stderr, "key=actor.mini_batch_size value=0", "key=data.max_prompt_tokens value=760")
		mustContain(t, "config.toml", string(read(t, dir, "runs/tiny/config.toml")), "max_prompt_tokens = 760\n")
	}
}
