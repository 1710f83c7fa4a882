package view

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// ListHeader returns the header of the lines of ListLine. If run is true, the
// header has a column for Origin.
func ListHeader(run bool) string {
	const header = "   nr  outcome        reward  turns  tokens  sampled  task\n"
	if run {
		return fmt.Sprintf("%-20s", "rollouts") + header
	}
	return header
}

// ListLine returns an episode on one line. The parameter origin is "" if all
// episodes are from one file.
func ListLine(origin string, n int, e *data.Episode) string {
	if origin != "" {
		origin = fmt.Sprintf("%-20s", OneLine(origin, 19))
	}
	return fmt.Sprintf("%s%5d  %-13s %7.4g %6d %7d %8d  %s sample %d\n",
		origin, n, OneLine(string(e.Outcome), 13), e.Reward, len(e.Turns), len(e.Tokens), e.SampledTokens(), OneLine(e.Task.ID, 60), e.Sample)
}

// Text writes an episode for a terminal. The parameter origin is as in ListLine.
func Text(w io.Writer, origin string, n int, e *data.Episode) error {
	var b strings.Builder
	if origin != "" {
		origin = " of " + OneLine(origin, 0)
	}
	fmt.Fprintf(&b, "episode %d%s: %s (%s, index %d), sample %d: %s, reward %g\n", n, origin, OneLine(e.Task.ID, 0), OneLine(e.Task.Env, 0), e.Task.Index,
		e.Sample, OneLine(string(e.Outcome), 0), e.Reward)
	fmt.Fprintf(&b, "  %d turns, %d tokens, %d sampled, seed %d, weight version %d, attempts %d, %.0f ms\n", len(e.Turns), len(e.Tokens), e.SampledTokens(),
		e.Seed, e.WeightVersion, e.Attempts, e.Millis)
	if e.Server != "" {
		fmt.Fprintf(&b, "  server %s\n", OneLine(e.Server, 0))
	}
	if e.Err != "" {
		fmt.Fprintf(&b, "  error: %s\n", OneLine(e.Err, 0))
	}
	for _, m := range opening(e) {
		textBlock(&b, OneLine(m.Role, 0), m.Content)
	}
	for i := range e.Turns {
		textTurn(&b, i, e, &e.Turns[i])
	}
	if len(e.Exchanges) > 0 {
		fmt.Fprintf(&b, "  exchanges\n")
	}
	for _, x := range e.Exchanges {
		fmt.Fprintf(&b, "    %s %s %d, %.1f ms: %s -> %s", OneLine(x.Method, 0), OneLine(x.Path, 0), x.Status, x.Millis, OneLine(x.Body, 100), OneLine(x.Reply, 100))
		if x.Err != "" {
			fmt.Fprintf(&b, " (%s)", OneLine(x.Err, 0))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func textTurn(b *strings.Builder, i int, e *data.Episode, t *data.Turn) {
	f := factsOf(e, t)
	fmt.Fprintf(b, "  turn %d: reward %g", i+1, t.Reward)
	if t.Done {
		b.WriteString(", done")
	}
	if t.Behind > 0 {
		fmt.Fprintf(b, ", weight version %d", e.WeightVersion-t.Behind)
	}
	fmt.Fprintf(b, "; %d tokens", f.Tokens)
	if f.LogProbs > 0 {
		fmt.Fprintf(b, ", log-prob mean %.3f, lowest %.3f", f.Mean, f.Low)
	}
	fmt.Fprintf(b, "; stop %s; model %.0f ms, server %.0f ms\n", OneLine(t.Stop, 0), t.GenMillis, t.EnvMillis)
	for _, m := range t.Prompt {
		textBlock(b, "prompt of this turn, "+OneLine(m.Role, 0), m.Content)
	}
	textBlock(b, "reply", t.Text)
	if t.Unjudged {
		b.WriteString("    the episode ended before the environment received the reply\n")
	} else if t.Parsed {
		fmt.Fprintf(b, "    action: %s\n", OneLine(t.Action, 0))
	} else {
		b.WriteString("    no action found\n")
	}
	name := "observation"
	if t.Truncated {
		name += " (the model saw a shortened one)"
	}
	textBlock(b, name, t.Observation)
}

func textBlock(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "    %s\n", name)
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(b, "      %s\n", OneLine(line, 0))
	}
}

// Origin returns a name for the rollouts in a file of a run's folder: "step 21" for
// step_21.jsonl, and the file name without extensions for other files, such as those
// of a validation.
func Origin(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".zst")
	name = strings.TrimSuffix(name, ".jsonl")
	if step, ok := strings.CutPrefix(name, "step_"); ok {
		return "step " + step
	}
	return name
}
