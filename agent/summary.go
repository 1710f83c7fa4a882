package agent

import (
	"context"
	"fmt"
	"strings"
)

// Summaries of an episode's past (spec 11.4), written by another model: the
// format history shows one in place of the past turns.
//
// Differs from upstream in: a summary is written from the one before it and
// the newest step, not from every step again, so that what it costs does not
// grow with the episode; its length is asked for, and held to.

// Summarizer answers one question to a language model, such as one behind an
// OpenAI-compatible endpoint. It is asked by many goroutines at once, bounds
// its own time and concurrency, and retries what is worth it: its error ends
// the attempt at an episode, which is then played again.
type Summarizer interface {
	Summarize(ctx context.Context, prompt string) (string, error)
}

// summaryLabels are the lines of a summary, and how long it may be.
func summaryLabels(env string) (labels string, most int) {
	if env == "webshop" {
		return "SearchQuery, PagesVisited, RelevantProducts, Selections, IrrelevantSummary", 700
	}
	return "Task, Location, Inventory, Discovered, KeyEvents", 600
}

// summarize writes the summary of past, before being that of all but its last
// step, "" where there is none.
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
