package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// shellLines splits commands into words as a shell does, quotes and newlines
// in quotes included.
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

func tasksToPlay(e configs.Env) []string {
	if len(e.ValTasks) > 0 {
		return e.ValTasks
	}
	return e.Tasks
}

// Every setting that decides about episodes has a flag of eval that says the
// same, through a shell as well.
func TestPlayedAs(t *testing.T) {
	base := "[model]\npath='m'\ncompute_dtype='float32'\n[agent]\nmax_obs_tokens=0\n[rollout]\nmax_new_tokens=512\nmax_context_tokens=4097\n[rollout.val]\ntemperature=1\n[[env]]\n"
	for _, c := range []struct {
		name, toml string
		sets       []string
		want       []string // words beyond --model, --env, --tasks and --max-context-tokens
		check      func(o evalOptions) bool
	}{
		{"defaults", "name='maze'\nformat='react'\ntasks='1-3'\nmax_turns=3\n", nil, []string{"--max-turns", "3"},
			func(o evalOptions) bool { return o.Tasks == "1-3" && o.MaxContextTokens == 4097 }},
		{"several entries", "name='maze'\nformat='react'\ntasks='9'\nval_tasks=['0-2','my rows.jsonl']\nskip_tasks=['1','25']\nmax_turns=3\n", nil,
			[]string{"--skip-tasks", "1,25", "--max-turns", "3"}, func(o evalOptions) bool { return o.Tasks == "0-2,my rows.jsonl" && o.Skip == "1,25" }},
		{"formats", "name='maze'\nformat='action_tags'\nparser='g1'\ntasks='0'\nmax_turns=3\n", nil,
			[]string{"--max-turns", "3", "--format", "action_tags", "--parser", "g1"}, func(o evalOptions) bool { return o.Format == "action_tags" && o.Parser == "g1" }},
		{"a memory", "name='maze'\nformat='staged'\nhistory_length=4\nmemory_file='a b.md'\nfinal_ends=true\ntasks='0'\nmax_turns=3\n", nil,
			[]string{"--max-turns", "3", "--format", "staged", "--history-length", "4", "--memory-file", "a b.md", "--final-ends"},
			func(o evalOptions) bool {
				return o.Format == "staged" && o.HistoryLength == 4 && o.MemoryFile == "a b.md" && o.FinalEnds
			}},
		{"functions", "name='webshop'\naction_format='function_calling'\nservers='http://a:1'\ntasks='0'\nmax_turns=3\n", nil,
			[]string{"--server", "http://a:1", "--max-turns", "3", "--action-format", "function_calling"},
			func(o evalOptions) bool { return o.ActionFormat == "function_calling" }},
		{"instruction", "name='maze'\nformat='react'\ninstruction=\"It's a maze.\\nGo.\"\ntasks='0'\nmax_turns=3\n", nil,
			[]string{"--max-turns", "3", "--instruction", "It's a maze.\nGo."}, func(o evalOptions) bool { return o.Instruction == "It's a maze.\nGo." }},
		{"files", "name='textcraft'\nformat='react'\nrecipes='my book'\ninstruction_file='i.txt'\ntasks='0'\nmax_turns=3\ntimeout_s=7.5\n", nil,
			[]string{"--recipes", "my book", "--max-turns", "3", "--timeout", "7.5", "--instruction-file", "i.txt"},
			func(o evalOptions) bool {
				return o.Recipes == "my book" && o.TimeoutS == 7.5 && o.InstructionFile == "i.txt"
			}},
		{"limits", "name='maze'\nformat='react'\ntasks='0'\nmax_turns=3\n",
			[]string{"rollout.max_new_tokens=9", "agent.max_obs_tokens=7", "rollout.val.temperature=0", "rollout.val.group_size=4", "model.compute_dtype=bfloat16"},
			[]string{"--samples", "4", "--max-turns", "3", "--max-new-tokens", "9", "--max-obs-tokens", "7", "--greedy", "--dtype", "bfloat16"},
			func(o evalOptions) bool {
				return o.Samples == 4 && o.MaxNewTokens == 9 && o.MaxObsTokens == 7 && o.Greedy && o.Dtype == "bfloat16"
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets := append([]string{"trainer.test_every=0", "trainer.val_before_train=false", "data.max_prompt_tokens=4000"}, c.sets...)
			cfg, err := configs.Load("run.toml", []byte(base+c.toml), sets)
			if err != nil {
				t.Fatal(err)
			}
			words := []string{"--model", quoted("an actor")}
			for _, f := range playedAs(cfg, cfg.Env[0], tasksToPlay(cfg.Env[0])) {
				if words = append(words, "--"+f.name); f.value != switchedOn {
					words = append(words, quoted(f.value))
				}
			}
			lines := shellLines(strings.Join(words, " ") + "\n")
			if len(lines) != 1 {
				t.Fatalf("%d lines: %q", len(lines), lines)
			}
			var rest []string
			for i := 0; i < len(lines[0]); i++ {
				if slices.Contains([]string{"--model", "--env", "--tasks", "--max-context-tokens"}, lines[0][i]) {
					i++
					continue
				}
				rest = append(rest, lines[0][i])
			}
			if !slices.Equal(rest, c.want) {
				t.Errorf("flags %q, want %q", rest, c.want)
			}
			o, code, text := parsed(t, lines[0], evalFlags(), stateless(func(c *cli.Context) (evalOptions, error) { return parseEval(c) }))
			if code != errext.OK {
				t.Fatal(text)
			}
			if o.Model != "an actor" || o.Env != cfg.Env[0].Name || o.MaxTurns != 3 || !c.check(o) {
				t.Errorf("eval takes %q as %+v", lines[0], o)
			}
		})
	}
}

// What a run says to do next is eval with its configuration; what the
// configuration leaves open is said.
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

// The program is named as it was called: build.sh leaves it under build/ only.
func TestNextNamesTheProgram(t *testing.T) {
	ts := newTestState(t, "train", "run.toml", "--quiet", "--set", "trainer.total_steps=1", "--set", "sft.epochs=1", "--set", "model.fresh.walks=0")
	ts.Args[0] = "build/openmanus"
	writeFile(t, ts.Dir, "run.toml", tinyRun)
	if code := Main(ts.State); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, ts.err.String())
	}
	mustContain(t, "stdout", ts.out.String(), "\n  build/openmanus eval --model ", "\n  build/openmanus config init my.toml\n")
}
