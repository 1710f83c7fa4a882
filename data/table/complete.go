package table

import (
	"cmp"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/plainjson"
)

// agentTrajNames maps the roles of a chat to AgentTraj's names.
var agentTrajNames = map[string]string{"user": "human", "assistant": "gpt"}

// from returns the name of the message's role in AgentTraj.
func (m *RecordMessage) from() *string { return named(m.From, m.Role, agentTrajNames) }

// role returns the name of the message's role in chat templates.
func (m *RecordMessage) role() *string { return named(m.Role, m.From, roles) }

// named returns name if it is not nil, and otherwise other as translated by the map names.
func named(name, other *string, names map[string]string) *string {
	if name != nil || other == nil {
		return name
	}
	if translated, ok := names[*other]; ok {
		return &translated
	}
	return other
}

func (m *RecordMessage) text() *string { return cmp.Or(m.Value, m.Content) }

// trajectory returns messages in AgentTraj's notation, in which every reply has an
// explicit loss.
func trajectory(in []data.Message) []RecordMessage {
	out := make([]RecordMessage, len(in))
	for i, m := range in {
		chat := RecordMessage{Role: &m.Role}
		out[i] = RecordMessage{From: chat.from(), Value: &m.Content, Loss: m.Loss}
		if m.Loss == nil && m.Role == "assistant" {
			yes := true
			out[i].Loss = &yes
		}
	}
	return out
}

// RecordOf returns an episode as a row for training, with all replies in the loss.
func RecordOf(e *data.Episode) *Record {
	r := &Record{DataSource: &e.Task.Env, ItemID: &e.Task.ID, Conversations: trajectory(e.Messages)}
	r.Complete(&e.Task)
	return r
}

// Complete fills in the missing columns of OpenManus-RL's files from the row's
// task, as their generator does, with two differences: extra_info.index is the
// task's index instead of a running number, and prompt has the messages before the
// first reply, without the fixed preamble that the generator writes (protocol 7.2).
func (r *Record) Complete(t *data.Task) {
	ability, style := "agent-reasoning", "rule"
	setDefault(&r.DataSource, &t.Env)
	setDefault(&r.ItemID, &t.ID)
	setDefault(&r.Ability, &ability)
	if r.Prompt == nil {
		for _, m := range r.Conversations {
			role := m.role()
			if role != nil && *role == "assistant" {
				break
			}
			r.Prompt = append(r.Prompt, RecordMessage{Role: role, Content: m.text()})
		}
	}
	setDefault(&r.RewardModel, &RecordReward{})
	setDefault(&r.ExtraInfo, &RecordExtra{})
	if r.RewardModel.GroundTruth == nil || r.ExtraInfo.Conversations == nil {
		text := conversationText(r.Conversations)
		setDefault(&r.RewardModel.GroundTruth, &text)
		setDefault(&r.ExtraInfo.Conversations, &text)
	}
	setDefault(&r.RewardModel.Style, &style)
	if _, _, ok := splitID(*r.ItemID); t.Index != data.NoIndex && (!ok || r.ExtraInfo.Index == nil) {
		index := int64(t.Index)
		r.ExtraInfo.Index = &index
	}
	setDefault(&r.ExtraInfo.Split, &t.Env)
}

func setDefault[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}

// conversationText returns a conversation as Python's json.dumps formats it.
// OpenManus-RL's files contain this text next to the conversation (protocol 7.2).
func conversationText(messages []RecordMessage) string {
	out := []byte{'['}
	for i := range messages {
		m := &messages[i]
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, `{"from": `...)
		out = appendPython(out, m.from())
		out = append(out, `, "loss": `...)
		if m.Loss == nil {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendBool(out, *m.Loss)
		}
		out = append(out, `, "value": `...)
		out = append(appendPython(out, m.text()), '}')
	}
	return string(append(out, ']'))
}

// appendPython appends a string as json.dumps formats it: in ASCII, with two
// escapes for a character outside of the basic multilingual plane.
func appendPython(out []byte, s *string) []byte {
	text, _ := plainjson.Marshal(s) // a string can always be encoded
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
