package run

import "github.com/openmanus/openmanus/algo"

// readingLines is about how many lines of metrics.jsonl tell of reading, which
// has hundreds of steps before the first of the run.
const readingLines = 50

// readingEvery is how many steps of reading a line is about.
func readingEvery(steps int) int { return max(1, (steps+readingLines-1)/readingLines) }

// readingLine sums up the steps of reading that a line is about. Its metrics are
// those of supervised steps under the names of reading: the two losses are over
// other tokens and do not go on from one another.
type readingLine struct {
	last                                   algo.Metrics
	steps                                  int // that were not left out
	loss, gradNorm, lossTokens             float64
	tokens, skipped, seconds, readInSecond float64
}

// add takes the metrics of a supervised step.
func (l *readingLine) add(m algo.Metrics) {
	l.last = m
	l.tokens += m["train/tokens"]
	l.skipped += m["train/skipped_steps"]
	l.seconds += m["timing_s/sft"]
	l.readInSecond += m["perf/sft_tokens_per_s"] * m["timing_s/sft"]
	if loss, ok := m["train/loss"]; ok {
		l.steps++
		l.loss += loss * m["train/tokens"]
		l.lossTokens += m["train/tokens"]
		l.gradNorm += m["train/grad_norm"]
	}
}

// metrics are those of the line: where the last step is, means of the loss, of
// the gradient norm and of the speed, and sums of the others.
func (l *readingLine) metrics() algo.Metrics {
	out := algo.Metrics{
		"read/step": l.last["sft/step"], "read/epoch": l.last["sft/epoch"], "read/lr": l.last["train/lr"],
		"read/tokens": l.tokens, "read/skipped_steps": l.skipped, "timing_s/read": l.seconds,
	}
	if l.seconds > 0 {
		out["perf/read_tokens_per_s"] = l.readInSecond / l.seconds
	}
	if l.steps > 0 {
		out["read/loss"], out["read/grad_norm"] = l.loss/l.lossTokens, l.gradNorm/float64(l.steps)
	}
	return out
}
