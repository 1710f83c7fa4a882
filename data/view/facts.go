package view

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

// turnFacts summarizes the tokens of a turn. Positions outside of the episode's
// tokens, in an inconsistent dump, do not count.
type turnFacts struct {
	Start, End int // the turn is Tokens[Start:End] of the episode
	Tokens     int
	LogProbs   int // tokens with a log-prob
	Mean, Low  float64
}

func factsOf(e *data.Episode, t *data.Turn) turnFacts {
	f := turnFacts{Start: max(0, min(t.Start, len(e.Tokens)))}
	f.End = max(f.Start, min(t.End, len(e.Tokens)))
	f.Tokens = f.End - f.Start
	for i := f.Start; i < min(f.End, len(e.LogProbs)); i++ {
		lp := float64(e.LogProbs[i])
		if math.IsNaN(lp) {
			continue
		}
		if f.LogProbs == 0 {
			f.Low = lp
		}
		f.LogProbs++
		f.Low = min(f.Low, lp)
		f.Mean += (lp - f.Mean) / float64(f.LogProbs)
	}
	return f
}

// opening returns the messages before the first reply. They belong to no turn.
func opening(e *data.Episode) []data.Message {
	for i, m := range e.Messages {
		if m.Role == "assistant" {
			return e.Messages[:i]
		}
	}
	return e.Messages
}
