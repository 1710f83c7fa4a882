package text

import (
	"errors"
	"fmt"
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

// The ids above the bytes.
const (
	idEnd  int32 = 256 + iota // a message is over; the reply that ended by itself ends with it
	idCut                     // the reply was stopped
	idRole                    // idRole + i begins a message of roles[i]
)

// roles are those a message may have.
var roles = []string{"system", "user", "assistant", "tool"}

const assistant = "assistant"

func roleID(role string) (int32, error) {
	for i, r := range roles {
		if r == role {
			return idRole + int32(i), nil
		}
	}
	return 0, fmt.Errorf("a message has the role %q, want one of %q", role, roles)
}

// bytesOf are the ids of a text.
func bytesOf(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids
}

// parse takes a conversation that waits for a reply apart into its messages.
func parse(ids []int32) ([]data.Message, error) {
	var out []data.Message
	open := false
	var content []byte
	for i, id := range ids {
		switch {
		case id >= 0 && id < 256 && open:
			content = append(content, byte(id))
		case id == idCut && open: // what stopped the reply is no text of it
		case id == idEnd && open:
			out[len(out)-1].Content, content, open = string(content), nil, false
		case id >= idRole && int(id-idRole) < len(roles) && !open:
			out, open = append(out, data.Message{Role: roles[id-idRole]}), true
		default:
			return nil, fmt.Errorf("id %d at %d has no meaning there: these are not the ids of text.Renderer", id, i)
		}
	}
	n := len(out) - 1
	if !open || out[n].Role != assistant || len(content) > 0 {
		return nil, fmt.Errorf("%d ids do not ask for a reply", len(ids))
	}
	return out[:n], nil
}
