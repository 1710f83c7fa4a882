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
