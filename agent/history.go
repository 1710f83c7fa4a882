package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// history is the format of OpenManus-RL's environment managers (spec 11.1):
// every turn is one user message with the task, the last steps and the newest
// observation, so that a context does not grow with the episode.
//
// Differs from upstream in: the layout is the same for every environment,
// because observations of AgentGym's servers list the available actions; actions
// are parsed as in action_tags (upstream takes the last characters of a reply
// without a tag); no block of the reply is required; a failed summary fails the
// attempt at the episode (upstream shows the last three steps instead).
type history struct {
	actionTags
	env        string
	length     int
	summarizer Summarizer
}

func (history) Name() string { return env.FormatHistory }

// Fit returns the format with the history length and the summarizer of o.
func (history) Fit(spec env.Spec, o FormatOptions) (Format, error) {
	return history{actionTags: actionTags{spec.OwnTags}, env: spec.Name, length: o.HistoryLength, summarizer: o.Summarizer}, nil
}

// Begin returns the Prompter of a new episode.
func (h history) Begin(data.Task, int) Prompter { return &historyPrompter{history: h} }

// The requests for the blocks of a reply, in the first prompt and in later ones.
const (
	firstBlocks = "Reply in two parts: what you mean to do, between <plan> and </plan>, " +
		"then exactly one action, between <action> and </action>."
	laterBlocks = "Reply in four parts: what you recall that matters now, between <memory> and </memory>; whether the last action did what you wanted, " +
		"between <reflection> and </reflection>; what you mean to do, between <plan> and </plan>; then exactly one action, between <action> and </action>."
)

type historyPrompter struct {
	history
	first   string // the first observation, which states the task
	summary string
}

// Prompt returns the user message of the next turn.
func (h *historyPrompter) Prompt(ctx context.Context, s PromptState) (string, error) {
	if len(s.Past) == 0 {
		h.first = s.Observation
	}
	if len(s.Past) == 0 || h.length <= 0 && h.summarizer == nil {
		return firstLayout(h.first, s), nil
	}
	past, err := h.past(ctx, s)
	if err != nil {
		return "", err
	}
	return laterLayout(h.first, past, s) + "\n\n" + laterBlocks, nil
}

// past describes the steps before the newest observation.
func (h *historyPrompter) past(ctx context.Context, s PromptState) (string, error) {
	if h.summarizer == nil || len(s.Past) == 1 {
		return lastSteps(s.Past, max(h.length, 1)), nil
	}
	summary, err := summarize(ctx, h.summarizer, h.env, h.first, h.summary, s.Past)
	if err != nil {
		return "", err
	}
	h.summary = summary
	return fmt.Sprintf("What happened in the %d steps so far, in short:\n%s", len(s.Past), summary), nil
}

// firstLayout returns the prompt without past steps. After the first turn it
// has the first observation, which states the task, and the newest observation.
func firstLayout(begun string, s PromptState) string {
	parts := []string{begun}
	if len(s.Past) > 0 {
		parts = append(parts, "Now you see:\n"+s.Observation)
	}
	return strings.Join(append(parts, firstBlocks), "\n\n")
}

// laterLayout returns the prompt with past steps, without the request for the blocks of a reply.
func laterLayout(begun, past string, s PromptState) string {
	parts := []string{"The task began with:\n" + begun, fmt.Sprintf("You have taken %s.", steps(len(s.Past)))}
	if past != "" {
		parts = append(parts, past)
	}
	return strings.Join(append(parts, fmt.Sprintf("This is step %d. Now you see:\n%s", len(s.Past)+1, s.Observation)), "\n\n")
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// lastSteps lists the newest n steps, numbered from the episode's start. It does
// not repeat the first observation, with which the prompt begins.
func lastSteps(past []Step, n int) string {
	from := max(0, len(past)-n)
	lines := []string{fmt.Sprintf("The last %s:", steps(len(past)-from))}
	for i, step := range past[from:] {
		lines = append(lines, stepLine(from+i, step))
	}
	return strings.Join(lines, "\n")
}

func stepLine(i int, s Step) string {
	observation := "'" + s.Observation + "'"
	if i == 0 {
		observation = "as above"
	}
	action := "'" + s.Action + "'"
	if !s.Parsed {
		action = "none, the reply named no action"
	}
	return fmt.Sprintf("[Observation %d: %s, Action %d: %s]", i+1, observation, i+1, action)
}

// Summaries of an episode's past (spec 11.4), written by another model: the
// format history shows one in place of the past turns.
//
// Differs from upstream in: a summary is written from the previous one and the
// newest step, not from all steps, so that its cost does not grow with the
// episode; its length is requested in the prompt and enforced.

// Summarizer sends a prompt to a language model, such as one behind an
// OpenAI-compatible endpoint. Many goroutines call it at once. It limits the
// time and the number of concurrent requests, and repeats failed requests. Its
// error ends the attempt at an episode; the episode is then played again.
type Summarizer interface {
	Summarize(ctx context.Context, prompt string) (string, error)
}

// summaryLabels returns the labels of a summary's lines and its maximal length in characters.
func summaryLabels(env string) (labels string, most int) {
	if env == "webshop" {
		return "SearchQuery, PagesVisited, RelevantProducts, Selections, IrrelevantSummary", 700
	}
	return "Task, Location, Inventory, Discovered, KeyEvents", 600
}

// summarize returns the summary of the steps in past. The parameter before is the
// summary of these steps without the last one, or "" if there is none.
func summarize(ctx context.Context, z Summarizer, env, begun, before string, past []Step) (string, error) {
	labels, most := summaryLabels(env)
	parts := []string{fmt.Sprintf("An agent works on a task in the environment %s. Write down what it has to remember, for itself, "+
		"in at most %d characters, as one line for each of these labels, with a colon after the label and \"none\" where there is nothing: %s. "+
		"State only what is written here. Write nothing else.", env, most, labels)}
	parts = append(parts, "The task began with:\n"+begun)
	from := len(past) - 1
	if before != "" {
		parts = append(parts, fmt.Sprintf("The notes after %s:\n%s", steps(from), before))
	} else {
		from = 0
	}
	var lines []string
	for i := from; i < len(past); i++ {
		lines = append(lines, stepLine(i, past[i]))
	}
	parts = append(parts, "What happened then:\n"+strings.Join(lines, "\n"))
	text, err := z.Summarize(ctx, strings.Join(parts, "\n\n"))
	if err != nil {
		return "", fmt.Errorf("summarise %s: %w", steps(len(past)), err)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("summarise %s: the summary is empty", steps(len(past)))
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text, nil
}
