package replay

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// compare records the differences between the replayed and the recorded episode. The
// engine, the sampler and the server have already recorded the differences that they found.
func (p *play) compare(got *data.Episode) {
	rec, f := p.rec, &p.found
	p.messages(got)
	from := 0
	cut := false // an observation was shortened: without a model, the shortened text is unknown
	for i := range min(len(rec.Turns), len(got.Turns)) {
		r, g := &rec.Turns[i], &got.Turns[i]
		turn := i + 1
		before := 0
		if i > 0 {
			before = got.Turns[i-1].End
		}
		if r.End-from == g.End-before { // if the lengths differ, reader.Generate has recorded a difference
			series(f, turn, InMask, from, rec.Mask[from:r.End], got.Mask[before:g.End])
		}
		from = r.End
		f.values(turn, InStop, r.Stop, g.Stop)
		f.texts(turn, InText, r.Text, g.Text)
		f.texts(turn, InAction, r.Action, g.Action)
		f.values(turn, InAction, r.Parsed, g.Parsed)
		f.texts(turn, InObservation, r.Observation, g.Observation)
		f.values(turn, InReward, r.Reward, g.Reward)
		f.values(turn, InDone, r.Done, g.Done)
		if p.withModel() {
			f.values(turn, InMessages, r.Truncated, g.Truncated)
		}
		if cut = cut || r.Truncated; p.withModel() || !cut {
			f.texts(turn, InMessages, joined(r.Prompt), joined(g.Prompt))
		}
	}
	if n := len(got.Turns); n < len(rec.Turns) {
		ended := "the end of the episode, " + string(got.Outcome)
		if got.Err != "" {
			ended = got.Err
		}
		f.add(Difference{Turn: n + 1, What: InPrompt, At: from, Recorded: "another turn", Replayed: ended})
	} else if n == len(rec.Turns) {
		series(f, wholeEpisode, InMask, from, rec.Mask[from:], nil)
	}
	p.server.ended(wholeEpisode)
	f.values(wholeEpisode, InReward, rec.Reward, got.Reward)
	f.values(wholeEpisode, InOutcome, rec.Outcome, got.Outcome)
}

// joined returns a prompt as one text.
func joined(prompt []data.Message) string {
	var b strings.Builder
	for _, m := range prompt {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Content)
	}
	return b.String()
}

// messages compares the conversations. Messages before the first reply count as
// the first observation.
func (p *play) messages(got *data.Episode) {
	rec, now, turn := p.rec.Messages, got.Messages, 0
	text := func(ms []data.Message, i int) string {
		if i >= len(ms) {
			return ""
		}
		return ms[i].Role + ": " + ms[i].Content
	}
	for i := range max(len(rec), len(now)) {
		reply := i < len(rec) && rec[i].Role == "assistant"
		if reply {
			turn++
		}
		switch {
		case turn == 0:
			p.found.texts(0, InObservation, text(rec, i), text(now, i))
		case !reply && !p.withModel() && turn <= len(p.rec.Turns) && p.rec.Turns[turn-1].Truncated:
			// The recorded observation was shortened: the text that the model received is unknown.
		default:
			p.found.texts(turn, InMessages, text(rec, i), text(now, i))
		}
	}
}
