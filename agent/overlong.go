package agent

import (
	"context"
	"fmt"
)

// The sides on which Options.Truncation takes text out of the first observation
// of a prompt that is too long (verl's data.truncation).
//
// Differs from verl in: verl cuts the ids of the whole prompt, and with them
// the system message or the mark that asks for a reply. Here the instruction
// and all that the chat template writes stay whole: the text of the observation
// is shortened, with a mark where text was taken out, and the messages are
// rendered again. The ids are those of what the model is shown.
const (
	TruncateError  = "error" // none: the prompt is an error
	TruncateLeft   = "left"
	TruncateMiddle = "middle"
	TruncateRight  = "right"
)

// firstIDs gives the ids before the first reply, within MaxPrompt if
// Truncation can bring them there.
func (p *player) firstIDs(ctx context.Context, start Start) ([]int32, error) {
	whole := p.ep.FirstObservation
	ids, err := p.firstPrompt(ctx, start, whole)
	side, limit := p.Options.Truncation, p.Options.MaxPrompt
	if err != nil || side == "" || side == TruncateError || p.Options.FilterOverlong || limit <= 0 || len(ids) <= limit {
		return ids, err
	}
	count := func(text string) (int, error) {
		ids, err := p.firstPrompt(ctx, start, text)
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
		return p.firstPrompt(ctx, start, whole)
	}
	p.ep.PromptTruncated = true
	return p.firstPrompt(ctx, start, text)
}

// firstPrompt writes the messages before the first reply with so much of the
// first observation, and gives their ids.
func (p *player) firstPrompt(ctx context.Context, start Start, observation string) ([]int32, error) {
	var err error
	p.state.Observation = observation
	p.ep.Messages, err = Opening(p.ep.Instruction, observation, p.Options.InstructionRole)
	if err != nil {
		return nil, err
	}
	if f, ok := p.Format.(Prompting); ok {
		p.prompter = f.Begin(start.Task, start.Sample)
		return p.prompt(ctx)
	}
	return p.render(p.ep.Messages)
}

// checkPromptLength returns a PromptError if the first prompt leaves no room for a reply
// or is longer than MaxPrompt: the options or the task have to change, for the
// model has said nothing yet.
func (p *player) checkPromptLength(ids []int32, start Start) error {
	err := &PromptError{Task: start.Task.ID, Tokens: len(ids), Limit: p.Options.MaxPrompt, Key: MaxPromptKey}
	if err.Limit > 0 && err.Tokens > err.Limit {
		return err
	}
	if err.Limit, err.Key = p.Options.MaxContext, MaxContextKey; err.Tokens >= err.Limit {
		return err
	}
	return nil
}

// The options that a PromptError may speak of.
const (
	MaxPromptKey  = "max_prompt_tokens"
	MaxContextKey = "max_context_tokens"
)

// PromptError is a task whose first messages are too long to be played. The
// model never said anything: the options, or the task, have to change.
type PromptError struct {
	Task          string
	Tokens, Limit int
	Key           string // which limit: MaxPromptKey or MaxContextKey
}

// Error names the task, its length and the limit.
func (e *PromptError) Error() string {
	return fmt.Sprintf("the first messages of %s take %d tokens and %s is %d", e.Task, e.Tokens, e.Key, e.Limit)
}
