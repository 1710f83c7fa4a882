package agent

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// Prompting is a Format that writes a new prompt for every turn instead of
// appending to the conversation. Every turn is then a separate context: the
// model sees only the prompt, in episodes and in training.
type Prompting interface {
	Format
	// Begin returns the Prompter of one episode. An episode may call it several
	// times to find how much of its first observation fits, and uses the last
	// Prompter. A call of Prompt with an empty Past must change only its Prompter.
	Begin(task data.Task, sample int) Prompter
}

// Prompter writes the prompts of one episode, in one goroutine.
type Prompter interface {
	// Prompt returns the text after the instruction. It is called once per turn,
	// in order.
	Prompt(ctx context.Context, s PromptState) (string, error)
}

// PromptState is the state of an episode before a turn.
type PromptState struct {
	Past        []Step
	Observation string // the newest observation, shortened for the model
}

// Step is a past turn, with the observation before its reply.
type Step struct {
	Observation, Reply, Action string
	Parsed                     bool
}

// FormatOptions holds the options that some formats need.
type FormatOptions struct {
	HistoryLength int        // past turns in a prompt of history and staged; 0: none
	MemoryFile    string     // for staged; "": the memory holds only lines that the episode stored
	Summarizer    Summarizer // for history: summaries replace past turns; nil: none
}

// Fitting is a Format that depends on the environment or on options. Episodes
// use the format that Fit returns.
type Fitting interface {
	Format
	Fit(spec env.Spec, o FormatOptions) (Format, error)
}

// FormatFor returns the named format, fitted to an environment.
func FormatFor(name string, spec env.Spec, o FormatOptions) (Format, error) {
	f, err := Formats.Lookup(name)
	if err != nil {
		return nil, err
	}
	if fitting, ok := f.(Fitting); ok {
		if f, err = fitting.Fit(spec, o); err != nil {
			return nil, fmt.Errorf("format %s in %s: %w", name, spec.Name, err)
		}
	}
	return f, nil
}

// prompt writes the prompt of the next turn and returns its ids.
func (p *player) prompt(ctx context.Context) ([]int32, error) {
	text, err := p.prompter.Prompt(ctx, p.state)
	if err != nil {
		return nil, fmt.Errorf("write the prompt of turn %d: %w", len(p.ep.Turns)+1, err)
	}
	if p.lastPrompt, err = Opening(p.ep.Instruction, text, p.Options.InstructionRole); err != nil {
		return nil, err
	}
	return p.render(p.lastPrompt)
}

// restartContext starts a new context for the turn after t.
func (p *player) restartContext(ctx context.Context, t *data.Turn) ([]int32, error) {
	text, err := p.shorten(t, func(text string) ([]int32, error) {
		return p.Renderer.Start([]data.Message{{Role: RoleUser, Content: text}})
	})
	if err != nil {
		return nil, err
	}
	p.ep.Messages = append(p.ep.Messages, data.Message{Role: RoleUser, Content: text})
	p.state.Past = append(p.state.Past, Step{Observation: p.state.Observation, Reply: t.Text, Action: t.Action, Parsed: t.Parsed})
	p.state.Observation = text
	ids, err := p.prompt(ctx)
	if err != nil {
		return nil, err
	}
	p.contextStart = len(p.ep.Tokens)
	p.Session, err = engine.Restart(ctx, p.Engine, p.Session)
	return ids, err
}
