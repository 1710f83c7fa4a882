package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
)

func TestText(t *testing.T) {
	e := testEpisode("")
	e.Turns[0].Text = "go\nup\x1b[2J"
	e.Exchanges = e.Exchanges[:1]
	e.Err, e.Server = "gone\n", "http://h:1"
	var b bytes.Buffer
	if err := Text(&b, "", 4, e); err != nil {
		t.Fatal(err)
	}
	want := `episode 4: maze_3 (maze, index 3), sample 1: done, reward 0.5
  2 turns, 5 tokens, 3 sampled, seed 7, weight version 4, attempts 2, 12 ms
  server http://h:1
  error: gone⏎
    system
      be brief
    user
      find it
  turn 1: reward -1; 2 tokens, log-prob mean -1.375, lowest -2.250; stop eos; model 0 ms, server 0 ms
    reply
      go
      up␛[2J
    action: up
    observation (the model saw a shortened one)
      a wall
  turn 2: reward 0.5, done; 1 tokens, log-prob mean -0.000, lowest -0.000; stop length; model 0 ms, server 0 ms
    prompt of this turn, user
      once more
    reply
      hm
    no action found
  exchanges
    POST /step?id=1 200, 1.5 ms: {"action":"up"} -> {"reward":-1}
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestListLine(t *testing.T) {
	if got, want := ListHeader(false)+ListLine("", 12, testEpisode("\x1b")), "   nr  outcome        reward  turns  tokens  sampled  task\n   12  done              0.5      2       5        3  maze_3␛ sample 1\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := ListHeader(true)+ListLine(Origin("runs/a/rollouts/step_21.jsonl.zst"), 12, testEpisode("")), "rollouts               nr  outcome        reward  turns  tokens  sampled  task\nstep 21                12  done              0.5      2       5        3  maze_3 sample 1\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := Origin("val_step_16_maze.jsonl"); got != "val_step_16_maze" {
		t.Errorf("origin %q", got)
	}
}

// TestTerminalsGetNoCommands checks that no field of an episode can print a control
// character.
func TestTerminalsGetNoCommands(t *testing.T) {
	for _, text := range hostile {
		e := testEpisode(text)
		e.Outcome = data.Outcome(text)
		var b bytes.Buffer
		if err := Text(&b, text, 0, e); err != nil {
			t.Fatal(err)
		}
		out := b.String() + ListLine(text, 0, e)
		if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e }); i >= 0 {
			t.Errorf("%q: control character at %d of %q", text, i, out)
		}
	}
}

func TestOneLine(t *testing.T) {
	for _, tc := range []struct {
		in   string
		most int
		want string
	}{
		{"a\nb\tc", 0, "a⏎b c"},
		{"\x1b[31m\x00\r", 0, "␛[31m␀␍"},
		{"\u202eabc\u200b\u2028", 0, "\ufffdabc\ufffd\ufffd"},
		{"\xff\x7f\u009b", 0, "\ufffd␡\ufffd"},
		{"日本語の文字列です", 5, "日本語の文…"},
		{"12345", 5, "12345"},
	} {
		if got := OneLine(tc.in, tc.most); got != tc.want {
			t.Errorf("OneLine(%q, %d) = %q, want %q", tc.in, tc.most, got, tc.want)
		}
	}
}
