package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
)

// shellLines splits lines of commands into words as a shell does, with support
// for quotes and for newlines in quotes.
func shellLines(text string) [][]string {
	var lines [][]string
	var words []string
	var word strings.Builder
	begun, quote := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quote, begun = !quote, true
		case quote:
			word.WriteByte(c)
		case c == '\\' && text[i+1] == '\n':
			i++
		case c == '\\':
			i++
			word.WriteByte(text[i])
			begun = true
		case c == ' ':
			end()
		case c == '\n':
			end()
			if len(words) > 0 {
				lines = append(lines, words)
			}
			words = nil
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	return lines
}

// TestEvalAgain checks the arguments of the eval command that a finished run suggests.
func TestEvalAgain(t *testing.T) {
	maze := configs.Env{Name: "maze", ValTasks: []string{"0"}}
	words := configs.Env{Name: "wordle", UseSummary: true}
	for _, c := range []struct {
		name string
		envs []configs.Env
		i    int
		want string
	}{
		{"one", []configs.Env{maze}, 0, "--model 'an actor' run/config.toml"},
		{"several, no validation, summaries", []configs.Env{maze, words}, 1, "--model 'an actor' --env wordle --split train run/config.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(evalAgain("run/config.toml", "an actor", configs.Config{Env: c.envs}, c.envs[c.i]), " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestSuggestionsNameTheProgram checks that suggested commands start with the path of the running program.
func TestSuggestionsNameTheProgram(t *testing.T) {
	ts := newTestState(t, "train", "run.toml", "--quiet", "--set", "trainer.total_steps=1", "--set", "sft.epochs=1", "--set", "model.fresh.walks=0")
	ts.Args[0] = "build/openmanus"
	writeFile(t, ts.Dir, "run.toml", tinyRun)
	if code := Main(ts.State); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, ts.err.String())
	}
	mustContain(t, "stdout", ts.out.String(), "\n  build/openmanus eval --model ", "\n  build/openmanus config init my.toml\n")
}

// TestNextCommands runs the commands that finished runs suggest, as printed.
func TestNextCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains models")
	}
	const (
		small = "[model.fresh]\nlayers = 1\nhidden_size = 32\nintermediate_size = 64\nheads = 2\nkv_heads = 1\n[rollout]\ngroup_size = 2\nmax_new_tokens = 4\n" +
			"max_context_tokens = 2048\n[data]\ntrain_batch_size = 2\n[trainer]\ntotal_steps = 1\ntest_every = 0\nval_before_train = false\nexperiment = \"tiny\"\n" +
			"[sft]\ntrain_batch_size = 1\nmicro_batch_size = 1\n"
		imitate = "epochs = 1\n"
		prompts = "[[env]]\nname = \"sums\"\nkind = \"prompt\"\ntasks = \"sums.jsonl\"\nscore_fn = \"gsm8k\"\n"
		maze    = "[[env]]\nname = \"maze\"\nmax_turns = 2\ntasks = \"18\"\n"
	)
	for _, c := range []struct {
		name, command, config string
		words, without        []string
	}{
		{"prompt tasks", "train", strings.Replace(small, "[sft]\ntrain_batch_size = 1\nmicro_batch_size = 1\n", "", 1) + prompts, []string{"training tasks", "--split train", "episodes "}, nil},
		{"validated prompt tasks", "train", strings.Replace(small, "[sft]\ntrain_batch_size = 1\nmicro_batch_size = 1\n", "", 1) + prompts + "val_tasks = \"sums.jsonl\"\n", []string{"episodes "}, []string{"training tasks", "--split"}},
		{"a mixture", "train", small + imitate + prompts + maze + "val_tasks = \"16\"\nexpert_tasks = \"17\"\n", []string{"--env maze"}, []string{"training tasks", "--split"}},
		{"imitation", "sft", small + imitate + maze + "expert_tasks = \"17\"\n", []string{"training tasks"}, []string{"episodes ", "rollouts"}},
		{"no environment", "sft", small + imitate + "files = \"pairs.jsonl\"\n", []string{"chat", "serve"}, []string{"episodes ", "rollouts", "eval"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "sums.jsonl", `{"question":"1+1","answer":"2"}`+"\n"+`{"question":"1+2","answer":"3"}`+"\n")
			writeFile(t, dir, "pairs.jsonl", `{"item_id":"x_1","conversations":[{"from":"human","value":"u"},{"from":"gpt","value":"v","loss":true}]}`+"\n")
			writeFile(t, dir, "run.toml", c.config)
			code, stdout, stderr := inProcess(t, dir, c.command, "run.toml")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			mustContain(t, "stdout", stdout, c.words...)
			for _, w := range c.without {
				if strings.Contains(stdout, w) {
					t.Errorf("%q in\n%s", w, stdout)
				}
			}
			_, next, _ := strings.Cut(stdout, "\nNext: ")
			_, next, _ = strings.Cut(next, "\n")
			lines := shellLines(next)
			if len(lines) < 2 {
				t.Errorf("%d commands in\n%s", len(lines), stdout)
			}
			for _, words := range lines {
				if words[1] == "serve" { // it does not end; TestServe runs it
					continue
				}
				if code, _, stderr := inProcess(t, dir, words[1:]...); code != 0 {
					t.Errorf("%v: exit code %d\n%s", words, code, stderr)
				}
			}
		})
	}
}
