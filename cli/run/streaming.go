package run

import (
	"strings"

	"github.com/openmanus/openmanus/agent/llm/engine"
)

// streamed calls generate and passes the text of the reply to show piece by piece, as far as
// its characters are complete. The tokens in stops have no text. It returns the ids that were
// sampled, which are the whole reply unless generate fails. room is the maximum number of
// tokens of the reply.
func streamed(generate func(each func(engine.Token)) (engine.Reply, error), next func(id int32) string, decode func([]int32) string,
	stops []int32, room int, show func(string)) (engine.Reply, []int32, error) {
	tokens := make(chan int32, room) // so that the engine never waits for show
	var reply engine.Reply
	var err error
	go func() {
		defer close(tokens)
		reply, err = generate(func(t engine.Token) { tokens <- t.ID })
	}()
	isStop := map[int32]bool{}
	for _, id := range stops {
		isStop[id] = true
	}
	var ids, visible []int32
	var shown strings.Builder
	for id := range tokens {
		ids = append(ids, id)
		if isStop[id] {
			continue
		}
		visible = append(visible, id)
		if text := next(id); text != "" {
			shown.WriteString(text)
			show(text)
		}
	}
	// The bytes of an incomplete character at the end.
	if rest, ok := strings.CutPrefix(decode(visible), shown.String()); ok && rest != "" {
		show(rest)
	}
	return reply, ids, err
}
