package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// The sides on which Options.Truncation removes text from the first observation
// of a prompt that is too long (verl's data.truncation).
//
// Differs from verl in: verl cuts the ids of the whole prompt, including the
// system message or the generation prompt. Here the instruction and the text of
// the chat template are kept: the observation's text is shortened, with a mark
// in place of the removed text, and the messages are rendered again.
const (
	TruncateError  = "error" // remove nothing: the prompt is an error
	TruncateLeft   = "left"
	TruncateMiddle = "middle"
	TruncateRight  = "right"
)

// firstIDs returns the ids before the first reply, shortened to MaxPrompt if
// Truncation allows it.
func (p *player) firstIDs(ctx context.Context) ([]int32, error) {
	whole := p.ep.FirstObservation
	ids, err := p.firstPrompt(ctx, whole)
	side, limit := p.Options.Truncation, p.Options.MaxPrompt
	if err != nil || side == "" || side == TruncateError || p.Options.FilterOverlong || limit <= 0 || len(ids) <= limit {
		return ids, err
	}
	count := func(text string) (int, error) {
		ids, err := p.firstPrompt(ctx, text)
		return len(ids), err
	}
	frame, err := count("")
	if err != nil {
		return nil, err
	}
	text := ""
	if frame < limit {
		text, _, err = truncate(whole, limit-frame, side, func(text string) (int, error) {
			n, err := count(text)
			return n - frame, err
		})
		if err != nil {
			return nil, err
		}
	}
	if text == "" { // the instruction alone fills the prompt
		return p.firstPrompt(ctx, whole)
	}
	p.ep.PromptTruncated = true
	return p.firstPrompt(ctx, text)
}

// firstPrompt builds the messages before the first reply with the given first
// observation, and returns their ids.
func (p *player) firstPrompt(ctx context.Context, observation string) ([]int32, error) {
	var err error
	p.state.Observation = observation
	if p.Spec.Prompts {
		p.ep.Messages = promptMessages(p.Task, observation)
		return p.render(p.ep.Messages)
	}
	p.ep.Messages, err = Opening(p.ep.Instruction, observation, p.Options.InstructionRole)
	if err != nil {
		return nil, err
	}
	if f, ok := p.Format.(Prompting); ok {
		p.prompter = f.Begin(p.Task, p.Sample)
		return p.prompt(ctx)
	}
	return p.render(p.ep.Messages)
}

// promptMessages returns the messages of a prompt task with another text of the last one.
func promptMessages(task data.Task, last string) []data.Message {
	messages := slices.Clone(task.Prompt)
	messages[len(messages)-1].Content = last
	return messages
}

// checkPromptLength returns a *PromptError if the first prompt leaves no room
// for a reply or is longer than MaxPrompt.
func (p *player) checkPromptLength(ids []int32) error {
	err := &PromptError{Task: p.Task.ID, Tokens: len(ids), Limit: p.Options.MaxPrompt, Key: MaxPromptKey}
	if err.Limit > 0 && err.Tokens > err.Limit {
		return err
	}
	if err.Limit, err.Key = p.Options.MaxContext, MaxContextKey; err.Tokens >= err.Limit {
		return err
	}
	return nil
}

// The options that a PromptError can name.
const (
	MaxPromptKey  = "max_prompt_tokens"
	MaxContextKey = "max_context_tokens"
)

// PromptError reports a task whose first messages are too long. The model has
// not generated anything: change the options or the task.
type PromptError struct {
	Task          string
	Tokens, Limit int
	Key           string // option that sets Limit: MaxPromptKey or MaxContextKey
}

// Error names the task, its length and the limit.
func (e *PromptError) Error() string {
	return fmt.Sprintf("the first messages of %s have %d tokens, but %s is %d", e.Task, e.Tokens, e.Key, e.Limit)
}
