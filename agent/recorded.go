package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Recording is a recorded episode in parts, from which the conversations of any
// format can be built.
type Recording struct {
	Instruction string
	First       string         // the first observation
	Turns       []data.Message // replies and observations, alternating
}

// Conversation returns r as one conversation.
func (r Recording) Conversation(role string) ([]data.Message, error) {
	messages, err := Opening(r.Instruction, r.First, role)
	return append(messages, r.Turns...), err
}

// Conversations returns r in the layout of episodes in a format: one
// conversation, or one per reply for a Prompting format.
func (r Recording) Conversations(ctx context.Context, task data.Task, f Format, role string) ([][]data.Message, error) {
	anew, ok := f.(Prompting)
	if !ok {
		messages, err := r.Conversation(role)
		return [][]data.Message{messages}, err
	}
	prompter := anew.Begin(task, 0)
	s := PromptState{Observation: r.First}
	var out [][]data.Message
	for _, m := range r.Turns {
		if m.Role != "assistant" {
			s.Observation = m.Content
			continue
		}
		text, err := prompter.Prompt(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("write the prompt of turn %d: %w", len(s.Past)+1, err)
		}
		messages, err := Opening(r.Instruction, text, role)
		if err != nil {
			return nil, err
		}
		out = append(out, append(messages, m))
		parsed := f.Parse(m.Content)
		s.Past = append(s.Past, Step{Observation: s.Observation, Reply: m.Content, Action: parsed.Action, Parsed: parsed.OK})
	}
	return out, nil
}

// skipIdle excludes from the loss the replies that changed nothing: the
// observation after such a reply equals the one before. They stay in the
// conversation, so the model still learns the replies after them.
func (r *Recording) skipIdle() {
	no := false
	before := strings.TrimSpace(r.First)
	last := -1 // index of the reply whose observation comes next; -1: none
	for i := range r.Turns {
		if r.Turns[i].Role == "assistant" {
			last = i
			continue
		}
		after := strings.TrimSpace(r.Turns[i].Content)
		if last >= 0 && after == before {
			r.Turns[last].Loss = &no
		}
		before, last = after, -1
	}
}

// Recorded converts a task's recorded conversation to the layout of episodes; see
// Conversations. If skipIdle is true, replies that changed nothing are not in the
// loss. AgentGym records the instruction, an acknowledgement that episodes do not
// have, and the first observation as three messages (protocol 7.2); for some
// environments the instruction continues in the third message. Conversations with
// another layout are returned unchanged.
func Recorded(ctx context.Context, task data.Task, spec env.Spec, f Format, o Options, skipIdle bool) ([][]data.Message, error) {
	c := task.Conversation
	if len(c) < 4 || c[0].Role != "user" || c[1].Role != "assistant" || c[2].Role != "user" {
		return [][]data.Message{c}, nil
	}
	if l := c[1].Loss; l == nil || *l { // a reply to train on, not an acknowledgement
		return [][]data.Message{c}, nil
	}
	if callsFunctions(f) {
		return nil, fmt.Errorf("task %s: its recorded replies are text actions, but format %s requires function calls; use another format to train on it", task.ID, f.Name())
	}
	first := c[2].Content
	if spec.RecordedStart != nil {
		first = spec.RecordedStart(first)
	}
	r := Recording{Instruction: Instruction(task, spec, f, o.Instruction), First: strings.TrimSpace(first)}
	for _, m := range c[3:] {
		m.Content = strings.TrimRight(m.Content, "\n") // current servers and replies have no newline at the end
		r.Turns = append(r.Turns, m)
	}
	if skipIdle {
		r.skipIdle()
	}
	conversations, err := r.Conversations(ctx, task, f, o.InstructionRole)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", task.ID, err)
	}
	return conversations, nil
}
