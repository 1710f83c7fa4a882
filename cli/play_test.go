package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// playWith runs play on a pipe.
func playWith(t *testing.T, dir, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ts := newTestState(t, append([]string{"play"}, args...)...)
	ts.Dir, ts.Stdin = dir, strings.NewReader(input)
	code = Main(ts.State)
	return code, ts.out.String(), ts.err.String()
}

// onlyEpisode reads a dump of one episode.
func onlyEpisode(t *testing.T, dir, file string) *data.Episode {
	t.Helper()
	episodes, err := dump.ReadFile(filepath.Join(dir, file))
	if err != nil || len(episodes) != 1 {
		t.Fatalf("%s: %d episodes, %v", file, len(episodes), err)
	}
	return episodes[0]
}

// TestPlayEqualsRollout checks that an episode without a person is the one that rollout plays, and that it can be replayed.
func TestPlayEqualsRollout(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	flags := []string{"--env", "maze", "--device", "cpu", "--max-turns", "3", "--max-new-tokens", "9", "--seed", "4", "--temperature", "0.7"}
	if code, _, stderr := inProcess(t, dir, append([]string{"rollout", "--model", tiny, "--tasks", "17", "--dump", "rollout.jsonl"}, flags...)...); code != 0 {
		t.Fatalf("rollout: exit code %d\n%s", code, stderr)
	}
	code, stdout, stderr := playWith(t, dir, "", append([]string{tiny, "--task", "17", "--dump", "play.jsonl"}, flags...)...)
	if code != 0 {
		t.Fatalf("play: exit code %d\n%s", code, stderr)
	}
	want, got := onlyEpisode(t, dir, "rollout.jsonl"), onlyEpisode(t, dir, "play.jsonl")
	volatile := cmp.Options{
		cmpopts.IgnoreFields(data.Episode{}, "Millis", "Exchanges", "Created", "Server"), cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis"),
	}
	if d := cmp.Diff(want, got, volatile); d != "" {
		t.Errorf("the episode (-rollout +play)\n%s", d)
	}
	for _, turn := range got.Turns {
		mustContain(t, "stdout", stdout, "agent: "+strings.TrimRight(turn.Text, "\n"), turn.Observation)
	}
	mustContain(t, "stdout", stdout, got.Instruction, got.FirstObservation, string(got.Outcome))
	if code, _, stderr := inProcess(t, dir, "replay", "play.jsonl", "--model", tiny); code != 0 {
		t.Errorf("replay: exit code %d\n%s", code, stderr)
	}
	if code, second, _ := playWith(t, dir, "", append([]string{tiny, "--auto", "--task", "17"}, flags...)...); code != 0 || second != stdout {
		t.Errorf("with --auto the output is\n%s, without\n%s", second, stdout)
	}
}

// TestPlayYourself plays the shortest way through a part of the maze without a model.
func TestPlayYourself(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := playWith(t, dir, "\nmove down\nThought: nearer\nAction: move down\nunread", "--me", "--env", "maze", "--task", "17", "--max-turns", "4", "--dump", "me.jsonl")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	ep := onlyEpisode(t, dir, "me.jsonl")
	var replies []string
	for _, turn := range ep.Turns {
		replies = append(replies, turn.Text)
	}
	// Every line is a reply, so the thought is one, too.
	if d := cmp.Diff([]string{"Action: move down", "Action: Thought: nearer", "Action: move down"}, replies); d != "" {
		t.Errorf("replies (-want +got)\n%s", d)
	}
	if len(ep.Tokens) > 0 || ep.Outcome != data.Success {
		t.Errorf("%d token ids and outcome %s, want none and %s", len(ep.Tokens), ep.Outcome, data.Success)
	}
	mustContain(t, "stdout", stdout, "played by you", "turn 3, you: Action: move down", "success: reward 1 after 3 turns")
	for _, input := range []string{"q\n", "", "move down\nq\n"} {
		code, stdout, _ := playWith(t, dir, input, "--me", "--env", "maze", "--dump", "quit.jsonl", "--force")
		if code != 0 || !strings.Contains(stdout, "ended after") {
			t.Errorf("input %q: exit code %d\n%s", input, code, stdout)
		}
	}
}

// TestPlayTogether lets a person and the model take turns in one episode.
func TestPlayTogether(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	flags := []string{"--env", "maze", "--task", "17", "--device", "cpu", "--max-turns", "5", "--max-new-tokens", "9"}
	code, stdout, stderr := playWith(t, dir, "\nmove down\n\na\n", append([]string{tiny, "--dump", "both.jsonl"}, flags...)...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "turn 1, agent: ", "turn 2, you: Action: move down\n  action \"move down\"", "turn 3, agent: ", "turn 4, agent: ", "turn 5, agent: ")
	ep := onlyEpisode(t, dir, "both.jsonl")
	if len(ep.Turns) != 5 || len(ep.Tokens) > 0 {
		t.Errorf("%d turns and %d token ids, want 5 and none", len(ep.Turns), len(ep.Tokens))
	}
	_, alone, _ := playWith(t, dir, "a\n", append([]string{tiny}, flags...)...)
	first := func(text string) string { return text[:strings.Index(text, "turn 2")] }
	if first(alone) != first(stdout) {
		t.Errorf("the first turn is\n%s, without a person\n%s", first(stdout), first(alone))
	}
	endpoint := openaitest.Serve(t, walker)
	code, stdout, stderr = playWith(t, dir, "move down\n\n", "--base-url", endpoint.URL, "--api-model", "m", "--env", "maze", "--task", "17", "--max-turns", "2")
	if code != 0 {
		t.Fatalf("with an endpoint: exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "played by m", "turn 1, you: Action: move down", "turn 2, agent: ")
}

// TestPlayRun takes the environment, the format and the limits from a run.
func TestPlayRun(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	train(t, dir).wait(t)
	code, stdout, stderr := playWith(t, dir, "", "tiny", "--device", "cpu")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stdout", stdout, "played by tiny, checkpoint of step")
	if code, again, _ := playWith(t, dir, "", "--model", "tiny", "--device", "cpu"); code != 0 || again != stdout {
		t.Errorf("with --model: exit code %d\n%s", code, again)
	}
	if code, other, _ := playWith(t, dir, "", "tiny", "--device", "cpu", "--task", "3"); code != 0 || !strings.Contains(other, "maze, task 3") {
		t.Errorf("task 3: exit code %d\n%s", code, other)
	}
}

func TestPlayErrors(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	writeFile(t, dir, "old.jsonl", "x")
	for name, tt := range map[string]struct {
		args []string
		code errext.ExitCode
	}{
		"no model":        {[]string{"--env", "maze"}, errext.Usage},
		"no environment":  {[]string{tiny}, errext.Usage},
		"no such model":   {[]string{"gone", "--env", "maze"}, errext.Model},
		"two models":      {[]string{tiny, "--model", tiny, "--env", "maze"}, errext.Usage},
		"--me and --auto": {[]string{"--me", "--auto", "--env", "maze"}, errext.Usage},
		"a negative task": {[]string{"--me", "--env", "maze", "--task", "-1"}, errext.Usage},
		"no such task":    {[]string{"--me", "--env", "maze", "--task", "999999"}, errext.Input},
		"no server":       {[]string{"--me", "--env", "sciworld"}, errext.Input},
		"an old dump":     {[]string{"--me", "--env", "maze", "--dump", "old.jsonl"}, errext.Usage},
	} {
		code, stdout, stderr := playWith(t, dir, "", tt.args...)
		if code != int(tt.code) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, tt.code, stdout, stderr)
		}
	}
}

// TestPlayOnTerminal presses Enter, types an action, and ends the episode.
func TestPlayOnTerminal(t *testing.T) {
	tiny, dir := tinyModel(t), t.TempDir()
	args := []string{"play", tiny, "--env", "maze", "--task", "17", "--device", "cpu", "--max-new-tokens", "5"}
	for _, end := range []string{"q\r", "\x03"} {
		keys, shown, wait := startOnPty(t, dir, args...)
		at := shown.waitFor(t, 0, "turn 1> ")
		typeKeys(t, keys, "\r")
		at = shown.waitFor(t, at, "turn 1, agent: ")
		at = shown.waitFor(t, at, "turn 2> ")
		typeKeys(t, keys, "move dowm\x7fn\r")
		at = shown.waitFor(t, at, `action "move down"`)
		at = shown.waitFor(t, at, "turn 3> ")
		typeKeys(t, keys, end)
		shown.waitFor(t, at, "ended after 2 turns")
		if code := wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "servers")); err == nil {
		t.Error("play made a folder for the logs of servers that it did not start")
	}
}
