package openai

import (
	"errors"
	"testing"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
)

func TestSummarizer(t *testing.T) {
	s := openaitest.Serve(t, answers(openaitest.Answer{Text: "You went left."}, openaitest.Answer{Status: 401, Body: "{}"}))
	c, _ := client(t, Options{BaseURL: s.URL})
	z := &Summarizer{Client: c, MaxTokens: 77, Temperature: 0.1}
	if text, err := z.Summarize(t.Context(), "What happened?"); err != nil || text != "You went left." {
		t.Errorf("got %q, %v", text, err)
	}
	if raw := s.Requests()[0].Raw; raw["max_tokens"] != 77.0 || raw["temperature"] != 0.1 || s.Requests()[0].Last() != "What happened?" {
		t.Errorf("request %v", raw)
	}
	if _, err := z.Summarize(t.Context(), "And now?"); !errors.Is(err, KindAuth) {
		t.Errorf("got %v", err)
	}
}
