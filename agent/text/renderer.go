package text

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
)

// Renderer writes conversations in the ids of this package. It is the
// agent.Renderer that goes with an Engine.
type Renderer struct{}

// Start gives the ids of the first messages, and asks for a reply.
func (Renderer) Start(messages []data.Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("start of a conversation: there are no messages")
	}
	var ids []int32
	for _, m := range messages {
		id, err := roleID(m.Role)
		if err != nil {
			return nil, err
		}
		ids = append(append(append(ids, id), bytesOf(m.Content)...), idEnd)
	}
	id, err := roleID(assistant)
	return append(ids, id), err
}

// Next gives the ids between a reply and the next one.
func (r Renderer) Next(stoppedByEOS bool, _ int32, messages []data.Message) ([]int32, error) {
	ids, err := r.Start(messages)
	if err != nil || stoppedByEOS {
		return ids, err
	}
	return append([]int32{idEnd}, ids...), nil
}

// StopTokens are the ids that end a reply.
func (Renderer) StopTokens() []int32 { return []int32{idEnd} }

// Decode is the text of ids.
func (Renderer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 0 && id < 256 {
			b.WriteByte(byte(id))
		}
	}
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}
