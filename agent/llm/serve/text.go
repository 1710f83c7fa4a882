package serve

import (
	"strings"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// Text returns the text of a reply as clients receive it: without the stop token and
// without the stop string and the text after it.
func Text(t *tokenizer.Tokenizer, reply engine.Reply, stops []string) string {
	s := textStream{stops: stops}
	return s.push(t.Decode(spoken(reply), true)) + s.end()
}

// spoken returns the ids of a reply without its stop token.
func spoken(reply engine.Reply) []int32 {
	if n := len(reply.IDs); n > 0 && reply.Stop == engine.StopEOS {
		return reply.IDs[:n-1]
	}
	return reply.IDs
}

// textStream passes the text of a reply on, and holds back its end as long as this end
// could be the beginning of a stop string.
type textStream struct {
	stops []string
	held  string
	done  bool // a stop string was found: the rest is dropped
}

// push adds text and returns the text that can be sent.
func (s *textStream) push(text string) string {
	if s.done || text == "" {
		return ""
	}
	s.held += text
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		s.done = true
		return s.take(first)
	}
	keep := 0 // bytes at the end that could begin a stop string
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	return s.take(len(s.held) - keep)
}

// end returns the text that is still held back when the reply has ended.
func (s *textStream) end() string {
	if s.done {
		return ""
	}
	return s.take(len(s.held))
}

func (s *textStream) take(n int) string {
	text := s.held[:n]
	s.held = s.held[n:]
	return text
}
