package text

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// script returns the replies in their order and records the requests.
type script struct {
	replies  []Reply
	err      error
	requests []Request
}

func (s *script) Reply(_ context.Context, r Request) (Reply, error) {
	s.requests = append(s.requests, r)
	if s.err != nil {
		return Reply{}, s.err
	}
	return s.replies[len(s.requests)-1], nil
}

func opened(t *testing.T, s Speaker) (*Engine, *engine.Session) {
	t.Helper()
	e := &Engine{Speaker: s}
	session, err := e.Open(t.Context(), engine.SessionOptions{Key: engine.Key{Seed: 3, Task: "maze_1", Sample: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return e, session
}

func TestConversation(t *testing.T) {
	s := &script{replies: []Reply{{Text: "héllo", Context: 7}, {Text: "go</action> and more"}, {Text: "", Stop: engine.StopLength}, {Text: "end"}}}
	e, session := opened(t, s)
	var r Renderer
	user := func(text string) []data.Message { return []data.Message{{Role: "user", Content: text}} }
	ids, err := r.Start([]data.Message{{Role: "system", Content: "be \xff brief"}, {Role: "user", Content: "日本"}})
	if err != nil {
		t.Fatal(err)
	}
	var stops []engine.StopReason
	var texts []string
	for turn := range s.replies {
		var seen []int32
		reply, err := e.Generate(t.Context(), session, ids, engine.Params{
			Turn: turn, StopStrings: []string{"</act>", "</action>"}, Each: func(t engine.Token) { seen = append(seen, t.ID) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reply.IDs, seen); diff != "" {
			t.Errorf("turn %d: ids of the reply and of Each: -want +got:\n%s", turn, diff)
		}
		if len(reply.IDs) == 0 || len(reply.IDs) != len(reply.LogProbs) {
			t.Fatalf("turn %d: %d ids and %d log-probs", turn, len(reply.IDs), len(reply.LogProbs))
		}
		stops, texts = append(stops, reply.Stop), append(texts, r.Decode(reply.IDs))
		ids, err = r.Next(reply.Stop == engine.StopEOS, reply.IDs[len(reply.IDs)-1], user("next"))
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]engine.StopReason{engine.StopEOS, engine.StopString, engine.StopLength, engine.StopEOS}, stops); diff != "" {
		t.Errorf("stop reasons: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"héllo", "go</action>", "", "end"}, texts); diff != "" {
		t.Errorf("texts: -want +got:\n%s", diff)
	}
	want := []data.Message{
		{Role: "system", Content: "be \xff brief"},
		{Role: "user", Content: "日本"},
		{Role: "assistant", Content: "héllo"},
		{Role: "user", Content: "next"},
		{Role: "assistant", Content: "go</action>"},
		{Role: "user", Content: "next"},
		{Role: "assistant", Content: ""},
		{Role: "user", Content: "next"},
	}
	last := s.requests[len(s.requests)-1]
	if diff := cmp.Diff(want, last.Messages); diff != "" {
		t.Errorf("the conversation: -want +got:\n%s", diff)
	}
	if s.requests[1].Context != 7 || last.Key.Task != "maze_1" || last.Params.Turn != 3 {
		t.Errorf("last request %+v, want task maze_1 and turn 3; the second request must have context 7", last)
	}
}

func TestUnusableSessions(t *testing.T) {
	var r Renderer
	ids, err := r.Start([]data.Message{{Role: "user", Content: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{err: errors.New("no connection")}
	e, session := opened(t, s)
	if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); !errors.Is(err, s.err) {
		t.Errorf("Generate with a failing speaker: got error %v, want %v", err, s.err)
	}
	if _, err := e.Generate(t.Context(), session, nil, engine.Params{}); !errors.Is(err, engine.ErrSessionBroken) {
		t.Errorf("Generate after a failure: got error %v, want ErrSessionBroken", err)
	}
	e.Close(session)
	e.Close(session)
	if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); !errors.Is(err, engine.ErrSessionClosed) {
		t.Errorf("Generate after Close: got error %v, want ErrSessionClosed", err)
	}
	if _, err := e.Generate(t.Context(), engine.NewSession(engine.SessionOptions{}, 1), ids, engine.Params{}); err == nil {
		t.Error("Generate accepts a session of another engine")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Open(ended, engine.SessionOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a cancelled context: got error %v", err)
	}
	if len(s.requests) != 1 {
		t.Errorf("%d requests, want 1", len(s.requests))
	}
}

func TestInvalidConversations(t *testing.T) {
	for _, ids := range [][]int32{nil, {5}, {idRole + 1, 'a'}, {idRole + 1, 'a', idEnd}, {idRole + 9}, {-1}, {idRole + 2, 'a'}} {
		s := &script{replies: []Reply{{}}}
		e, session := opened(t, s)
		if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); err == nil || len(s.requests) > 0 {
			t.Errorf("ids %v: got error %v and %d requests, want an error without a request", ids, err, len(s.requests))
		}
	}
	if _, err := (Renderer{}).Start([]data.Message{{Role: "critic"}}); err == nil || !strings.Contains(err.Error(), `"critic"`) {
		t.Errorf("Start with an unknown role: got error %v", err)
	}
	if _, err := (Renderer{}).Start(nil); err == nil {
		t.Error("Start without messages: no error")
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("hello", "日本", true)
	f.Add("", "\xff\x00", false)
	f.Fuzz(func(t *testing.T, a, b string, system bool) {
		messages := []data.Message{{Role: "user", Content: a}, {Role: "assistant", Content: b}, {Role: "tool", Content: a + b}}
		if system {
			messages[0].Role = "system"
		}
		ids, err := Renderer{}.Start(messages)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(ids)
		if diff := cmp.Diff(messages, got); diff != "" || err != nil {
			t.Errorf("parse of the ids: error %v, -want +got:\n%s", err, diff)
		}
		if !utf8.ValidString((Renderer{}).Decode(ids)) {
			t.Error("decoded text is not UTF-8")
		}
	})
}
