package agent

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Roles the instruction may have.
const (
	RoleUser   = "user"   // in front of the first observation, in one message
	RoleSystem = "system" // in a message of its own
)

// Instruction is what the model is told about the environment and the form of
// its replies. It is the first of these that there is: the wording recorded
// with the task, override (the user's instruction file), the environment's own
// in this program.
func Instruction(task data.Task, spec env.Spec, f Format, override string) string {
	if text := recordedInstruction(task); text != "" && !callsFunctions(f) {
		return join(text, f.Prompt())
	}
	if override != "" {
		return override
	}
	text := spec.Instruction(f.Name())
	if !env.Worded(f.Name()) {
		text = join(text, f.Prompt())
	}
	return text
}

// recordedInstruction is the first message of the recorded conversation, ""
// where there is none or it does not stand alone: the instructions of maze and
// wordle are continued in the message that also states the start.
func recordedInstruction(task data.Task) string {
	if len(task.Conversation) == 0 || task.Env == "maze" || task.Env == "wordle" {
		return ""
	}
	if first := task.Conversation[0]; first.Role != "assistant" {
		return strings.TrimSpace(first.Content)
	}
	return ""
}

// Opening is the conversation before the first reply. A role of "" means
// RoleUser. Fine-tuning uses it too, so that a model meets in its episodes the
// shape it was trained on.
func Opening(instruction, observation, role string) ([]data.Message, error) {
	switch role {
	case "", RoleUser:
		return []data.Message{{Role: RoleUser, Content: join(instruction, observation)}}, nil
	case RoleSystem:
		if instruction == "" {
			return []data.Message{{Role: RoleUser, Content: observation}}, nil
		}
		return []data.Message{{Role: RoleSystem, Content: instruction}, {Role: RoleUser, Content: observation}}, nil
	}
	return nil, fmt.Errorf("the instruction's role is %q, want %q or %q", role, RoleUser, RoleSystem)
}

// join puts a blank line between two texts, or returns the one that is not
// empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n\n" + b
}
