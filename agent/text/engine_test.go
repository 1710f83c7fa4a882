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

// script returns one text after the other and records its requests.
type script struct {
	says []Said
	err  error
	asks []Ask
}

func (s *script) Say(_ context.Context, a Ask) (Said, error) {
	s.asks = append(s.asks, a)
	if s.err != nil {
		return Said{}, s.err
	}
	return s.says[len(s.asks)-1], nil
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

func TestConversationReachesTheSpeaker(t *testing.T) {
	s := &script{says: []Said{{Text: "héllo", Context: 7}, {Text: "go</action> and more"}, {Text: "", Stop: engine.StopLength}, {Text: "end"}}}
	e, session := opened(t, s)
	var r Renderer
	user := func(text string) []data.Message { return []data.Message{{Role: "user", Content: text}} }
	ids, err := r.Start([]data.Message{{Role: "system", Content: "be \xff brief"}, {Role: "user", Content: "日本"}})
	if err != nil {
		t.Fatal(err)
	}
	var stops []engine.StopReason
	var texts []string
	for turn := range s.says {
		reply, err := e.Generate(t.Context(), session, ids, engine.Params{Turn: turn, StopStrings: []string{"</act>", "</action>"}})
		if err != nil {
			t.Fatal(err)
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
	last := s.asks[len(s.asks)-1]
	if diff := cmp.Diff(want, last.Messages); diff != "" {
		t.Errorf("the conversation: -want +got:\n%s", diff)
	}
	if s.asks[1].Context != 7 || last.Key.Task != "maze_1" || last.Params.Turn != 3 {
		t.Errorf("asked with %+v", last)
	}
}

func TestSessionsEnd(t *testing.T) {
	var r Renderer
	ids, err := r.Start([]data.Message{{Role: "user", Content: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{err: errors.New("the line is dead")}
	e, session := opened(t, s)
	if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); !errors.Is(err, s.err) {
		t.Errorf("got %v", err)
	}
	if _, err := e.Generate(t.Context(), session, nil, engine.Params{}); !errors.Is(err, engine.ErrSessionBroken) {
		t.Errorf("after a failure: %v", err)
	}
	e.Close(session)
	e.Close(session)
	if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); !errors.Is(err, engine.ErrSessionClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := e.Generate(t.Context(), engine.NewSession(engine.SessionOptions{}, 1), ids, engine.Params{}); err == nil {
		t.Error("another engine's session was taken")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Open(ended, engine.SessionOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open after the end: %v", err)
	}
	if len(s.asks) != 1 {
		t.Errorf("%d asks", len(s.asks))
	}
}

func TestIDsOfOthersAreRefused(t *testing.T) {
	for _, ids := range [][]int32{nil, {5}, {idRole + 1, 'a'}, {idRole + 1, 'a', idEnd}, {idRole + 9}, {-1}, {idRole + 2, 'a'}} {
		s := &script{says: []Said{{}}}
		e, session := opened(t, s)
		if _, err := e.Generate(t.Context(), session, ids, engine.Params{}); err == nil || len(s.asks) > 0 {
			t.Errorf("%v: error %v, %d asks", ids, err, len(s.asks))
		}
	}
	if _, err := (Renderer{}).Start([]data.Message{{Role: "critic"}}); err == nil || !strings.Contains(err.Error(), `"critic"`) {
		t.Errorf("a role nobody knows: %v", err)
	}
	if _, err := (Renderer{}).Start(nil); err == nil {
		t.Error("a conversation of nothing was begun")
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
			t.Errorf("%v -want +got:\n%s", err, diff)
		}
		if !utf8.ValidString((Renderer{}).Decode(ids)) {
			t.Error("decoded text is not UTF-8")
		}
	})
}
