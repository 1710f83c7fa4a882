package agent

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Recorded brings a recorded episode into the shape in which the model will
// play: the same opening, then replies and observations in turn. AgentGym
// records the instruction, an acknowledgement that nobody gives in an episode,
// and the first observation as three messages (protocol 7.2); for some
// environments the instruction goes on in the third. Conversations of another
// layout are returned as they are.
func Recorded(task data.Task, spec env.Spec, f Format, o Options) ([]data.Message, error) {
	c := task.Conversation
	if len(c) < 4 || c[0].Role != "user" || c[1].Role != "assistant" || c[2].Role != "user" {
		return c, nil
	}
	if l := c[1].Loss; l == nil || *l { // a reply to learn from, not an acknowledgement
		return c, nil
	}
	if callsFunctions(f) {
		return nil, fmt.Errorf("task %s: its recorded replies name actions as text, and format %s wants function calls: use another format to learn from it", task.ID, f.Name())
	}
	first := c[2].Content
	if spec.RecordedStart != nil {
		first = spec.RecordedStart(first)
	}
	messages, err := Opening(Instruction(task, spec, f, o.Instruction), strings.TrimSpace(first), o.InstructionRole)
	if err != nil {
		return nil, err
	}
	for _, m := range c[3:] {
		m.Content = strings.TrimRight(m.Content, "\n") // current servers and replies end without
		messages = append(messages, m)
	}
	return messages, nil
}
