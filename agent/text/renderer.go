package text

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
)

// Renderer implements agent.Renderer for an Engine. It encodes conversations in
// the ids of this package.
type Renderer struct{}

// Start returns the ids of the first messages and the id that starts a reply.
func (Renderer) Start(messages []data.Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("start of a conversation: no messages")
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

// Next returns the ids between a reply and the next one.
func (r Renderer) Next(stoppedByEOS bool, _ int32, messages []data.Message) ([]int32, error) {
	ids, err := r.Start(messages)
	if err != nil || stoppedByEOS {
		return ids, err
	}
	return append([]int32{idEnd}, ids...), nil
}

// StopTokens returns the ids that end a reply.
func (Renderer) StopTokens() []int32 { return []int32{idEnd} }

// Decode returns the text of ids.
func (Renderer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 0 && id < 256 {
			b.WriteByte(byte(id))
		}
	}
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}

// Ids above the bytes.
const (
	idEnd  int32 = 256 + iota // ends a message, and a complete reply
	idCut                     // ends an incomplete reply
	idRole                    // idRole + i starts a message of roles[i]
)

// roles lists the roles of messages.
var roles = []string{"system", "user", "assistant", "tool"}

const assistant = "assistant"

func roleID(role string) (int32, error) {
	i := slices.Index(roles, role)
	if i < 0 {
		return 0, fmt.Errorf("a message has the role %q, want one of %q", role, roles)
	}
	return idRole + int32(i), nil
}

// bytesOf returns the ids of a text.
func bytesOf(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids
}

// parse decodes the ids of a conversation that ends with the start of a reply.
func parse(ids []int32) ([]data.Message, error) {
	var out []data.Message
	open := false
	var content []byte
	for i, id := range ids {
		switch {
		case id >= 0 && id < 256 && open:
			content = append(content, byte(id))
		case id == idCut && open: // an incomplete reply; idCut has no text
		case id == idEnd && open:
			out[len(out)-1].Content, content, open = string(content), nil, false
		case id >= idRole && int(id-idRole) < len(roles) && !open:
			out, open = append(out, data.Message{Role: roles[id-idRole]}), true
		default:
			return nil, fmt.Errorf("unexpected id %d at position %d: these are not ids of text.Renderer", id, i)
		}
	}
	n := len(out) - 1
	if !open || out[n].Role != assistant || len(content) > 0 {
		return nil, fmt.Errorf("the %d ids do not end with the start of a reply", len(ids))
	}
	return out[:n], nil
}
