package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Recording is an episode that somebody else played, taken apart so that it
// can be told in any format.
type Recording struct {
	Instruction string
	First       string         // observation
	Turns       []data.Message // replies and observations in turn
}

// Conversation tells r as one conversation that grows.
func (r Recording) Conversation(role string) ([]data.Message, error) {
	messages, err := Opening(r.Instruction, r.First, role)
	return append(messages, r.Turns...), err
}

// Conversations tells r in the shape in which the model will play in a format:
// one conversation that grows, or, where prompts are written anew, one for
// each reply.
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

// skipIdle keeps replies out of the loss that changed nothing: the observation
// after them is the one before. They stay in the conversation, so what is
// learned is what to do after one.
func (r *Recording) skipIdle() {
	no := false
	before := strings.TrimSpace(r.First)
	last := -1 // the reply that no observation has followed yet
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

// Recorded brings a recorded episode into the shape in which the model will
// play; see Conversations. With skipIdle, replies that changed nothing are not
// learned. AgentGym
// records the instruction, an acknowledgement that nobody gives in an episode,
// and the first observation as three messages (protocol 7.2); for some
// environments the instruction goes on in the third. Conversations of another
// layout are returned as they are.
func Recorded(ctx context.Context, task data.Task, spec env.Spec, f Format, o Options, skipIdle bool) ([][]data.Message, error) {
	c := task.Conversation
	if len(c) < 4 || c[0].Role != "user" || c[1].Role != "assistant" || c[2].Role != "user" {
		return [][]data.Message{c}, nil
	}
	if l := c[1].Loss; l == nil || *l { // a reply to learn from, not an acknowledgement
		return [][]data.Message{c}, nil
	}
	if callsFunctions(f) {
		return nil, fmt.Errorf("task %s: its recorded replies name actions as text, and format %s wants function calls: use another format to learn from it", task.ID, f.Name())
	}
	first := c[2].Content
	if spec.RecordedStart != nil {
		first = spec.RecordedStart(first)
	}
	r := Recording{Instruction: Instruction(task, spec, f, o.Instruction), First: strings.TrimSpace(first)}
	for _, m := range c[3:] {
		m.Content = strings.TrimRight(m.Content, "\n") // current servers and replies end without
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
