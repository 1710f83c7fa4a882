package agent

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Roles of the instruction.
const (
	RoleUser   = "user"   // before the first observation, in one message
	RoleSystem = "system" // in a separate message
)

// Instruction returns the text that explains the environment and the form of
// replies to the model. It is the instruction recorded with the task, else the
// parameter override (the user's instruction file), else the instruction of the
// environment's Spec. A user's own environment has only the user's instruction, so that
// recorded and played episodes have the same one.
func Instruction(task data.Task, spec env.Spec, f Format, override string) string {
	if text := recordedInstruction(task); text != "" && !callsFunctions(f) && !spec.Own {
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

// recordedInstruction returns the first message of the recorded conversation, or
// "" if there is none. It is also "" for maze and wordle, whose instructions
// continue in the message that describes the start.
func recordedInstruction(task data.Task) string {
	if len(task.Conversation) == 0 || task.Env == "maze" || task.Env == "wordle" {
		return ""
	}
	if first := task.Conversation[0]; first.Role != "assistant" {
		return strings.TrimSpace(first.Content)
	}
	return ""
}

// Opening returns the messages before the first reply. A role of "" means
// RoleUser. Fine-tuning calls Opening too, so that training data and episodes
// have the same layout.
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
	return nil, fmt.Errorf("the instruction role is %q, must be %q or %q", role, RoleUser, RoleSystem)
}

// join joins two texts with a blank line, or returns the one that is not empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n\n" + b
}
