package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

func TestRecorded(t *testing.T) {
	no, yes := false, true
	maze, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	state := "The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left."
	task := data.Task{Env: "maze", Conversation: []data.Message{
		{Role: "user", Content: "You are an expert maze solver."},
		{Role: "assistant", Content: "OK.", Loss: &no},
		{Role: "user", Content: "Example:\nThe goal is at position 8, 6. Your current position is at position 5, 6.\nNow:\n" + state + "\n"},
		{Role: "assistant", Content: "Thought:\ndown\n\nAction:\nmove down\n", Loss: &yes},
	}}
	f, err := Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Recorded(t.Context(), task, maze, f, Options{}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]data.Message{{
		{Role: "user", Content: maze.Instruction("react") + "\n\n" + state},
		{Role: "assistant", Content: "Thought:\ndown\n\nAction:\nmove down", Loss: &yes},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}

	plain := []data.Message{{Role: "user", Content: "hi"}, {Role: "assistant", Content: "hello"}}
	if got, err = Recorded(t.Context(), data.Task{Conversation: plain}, maze, f, Options{}, false); err != nil || cmp.Diff([][]data.Message{plain}, got) != "" {
		t.Fatalf("a conversation in another layout was changed: %v, %v", got, err)
	}
}

// TestRecordedSkipsIdle checks that replies that changed nothing stay in the conversation and are not in the loss.
func TestRecordedSkipsIdle(t *testing.T) {
	no, yes := false, true
	maze, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	user := func(s string) data.Message { return data.Message{Role: "user", Content: s} }
	reply := func(s string, learn *bool) data.Message {
		return data.Message{Role: "assistant", Content: s, Loss: learn}
	}
	task := data.Task{Env: "maze", Conversation: []data.Message{
		user("i"), reply("OK.", &no), user("Example: there\nThe goal is at position 8, 6. here\n"),
		reply("into a wall", &yes), user("The goal is at position 8, 6. here"), reply("away", &yes), user("there\n"),
		reply("again", nil), user("there"), reply("to the end", &yes),
	}}
	for _, skip := range []bool{false, true} {
		got, err := Recorded(t.Context(), task, maze, f, Options{}, skip)
		if err != nil {
			t.Fatal(err)
		}
		var learned []string
		for _, m := range got[0] {
			if m.Role == "assistant" && (m.Loss == nil || *m.Loss) {
				learned = append(learned, m.Content)
			}
		}
		want := []string{"into a wall", "away", "again", "to the end"}
		if skip {
			want = []string{"away", "to the end"}
		}
		if d := cmp.Diff(want, learned); d != "" {
			t.Errorf("skip %t (-want +got):\n%s", skip, d)
		}
		if len(got[0]) != len(task.Conversation)-2 {
			t.Errorf("skip %t: %d messages of %d", skip, len(got[0]), len(task.Conversation))
		}
	}
}

// TestRecordedInContexts checks that a Prompting format is trained one turn at a
// time, on the same prompts as in its episodes.
func TestRecordedInContexts(t *testing.T) {
	no, yes := false, true
	maze, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	reply := func(s string) data.Message { return data.Message{Role: "assistant", Content: s, Loss: &yes} }
	task := data.Task{ID: "maze_3", Env: "maze", Conversation: []data.Message{
		{Role: "user", Content: "i"}, {Role: "assistant", Content: "OK.", Loss: &no}, {Role: "user", Content: "here"},
		reply("Action: move down"), {Role: "user", Content: "there\n"}, reply("<action>move up</action>"), {Role: "user", Content: "gone"},
	}}
	f := fitted(t, env.FormatHistory, "maze", FormatOptions{HistoryLength: 2})
	got, err := Recorded(t.Context(), task, maze, f, Options{InstructionRole: RoleSystem}, false)
	if err != nil {
		t.Fatal(err)
	}
	system := data.Message{Role: "system", Content: maze.Instruction(env.FormatHistory)}
	shown := prompts(t, f, []string{"here", "there"}, "Action: move down")
	want := [][]data.Message{
		{system, {Role: "user", Content: shown[0]}, reply("Action: move down")},
		{system, {Role: "user", Content: shown[1]}, reply("<action>move up</action>")},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
