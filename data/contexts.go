package data

import (
	"fmt"
	"slices"
)

// With the formats history and staged every turn has a new prompt, so an
// episode consists of several contexts. Each context becomes a row, so that a
// forward pass sees the same tokens as sampling did. Reward, advantage and the
// comparison within a group belong to the episode: its rows stay next to each
// other, in order, and ByEpisode joins them for code that works on episodes.

// ContextSpans returns the span [start, end) in Tokens of every context of the
// episode.
func (e *Episode) ContextSpans() [][2]int {
	if len(e.Contexts) == 0 {
		return [][2]int{{0, len(e.Tokens)}}
	}
	spans := make([][2]int, len(e.Contexts))
	for i, start := range e.Contexts {
		end := len(e.Tokens)
		if i+1 < len(e.Contexts) {
			end = e.Contexts[i+1]
		}
		spans[i] = [2]int{start, end}
	}
	return spans
}

// ContextStart returns the index of the first token of the context with token i.
// The Position of a random draw (package engine) counts from this token.
func (e *Episode) ContextStart(i int) int {
	start := 0
	for _, s := range e.Contexts {
		if s <= i {
			start = s
		}
	}
	return start
}

// Conversations returns the conversations for supervised training. An episode with a
// new prompt every turn has one conversation per reply: the prompt and the reply.
// Any other episode has one conversation, its Messages.
func (e *Episode) Conversations() [][]Message {
	var out [][]Message
	for _, t := range e.Turns {
		if len(t.Prompt) == 0 {
			out = nil
			break
		}
		out = append(out, append(slices.Clone(t.Prompt), Message{Role: "assistant", Content: t.Text}))
	}
	if len(out) > 0 {
		return out
	}
	return [][]Message{e.Messages}
}

// CheckContexts verifies that the contexts cover Tokens in order and that none is
// empty.
func (e *Episode) CheckContexts() error {
	if len(e.Contexts) > 0 && e.Contexts[0] != 0 {
		return fmt.Errorf("its first context begins at token %d", e.Contexts[0])
	}
	for i, s := range e.ContextSpans() {
		if len(e.Contexts) > 0 && (s[1] <= s[0] || s[1] > len(e.Tokens)) {
			return fmt.Errorf("context %d spans tokens [%d, %d) of %d", i, s[0], s[1], len(e.Tokens))
		}
	}
	return nil
}

// split divides a valid row of a whole episode into one row per context.
// Contexts without a sampled token are kept.
func (r *Row) split(spans [][2]int) ([]Row, error) {
	if len(spans) == 1 {
		return []Row{*r}, nil
	}
	rows := make([]Row, len(spans))
	next := 0
	for i, s := range spans {
		c := *r
		c.Context, c.Contexts = i, len(spans)
		c.Tokens, c.Mask = slices.Clip(r.Tokens[s[0]:s[1]]), slices.Clip(r.Mask[s[0]:s[1]])
		to := c.floats()
		for j, f := range r.floats() {
			if *f.values != nil {
				*to[j].values = slices.Clip((*f.values)[s[0]:s[1]])
			}
		}
		c.Turns = nil
		for ; next < len(r.Turns) && r.Turns[next].End <= s[1]; next++ {
			t := r.Turns[next]
			if t.Start < s[0] {
				return nil, fmt.Errorf("turn %d is in two contexts: it begins at token %d, the second context at %d", next, t.Start, s[0])
			}
			t.Start, t.End = t.Start-s[0], t.End-s[0]
			c.Turns = append(c.Turns, t)
		}
		rows[i] = c
	}
	return rows, nil
}

// EpisodeSpans returns the spans [start, end) of rows that belong to one episode. It
// is an error if the rows of an episode are incomplete or not next to each other.
func EpisodeSpans(rows []Row) ([][2]int, error) {
	var spans [][2]int
	for start := 0; start < len(rows); {
		first := &rows[start]
		n := max(first.Contexts, 1)
		for i := range n {
			if start+i >= len(rows) {
				return nil, fmt.Errorf("row %d (%s, sample %d): %d of its episode's %d contexts are missing", start, first.UID, first.Sample, n-i, n)
			}
			r := &rows[start+i]
			if r.Context != i || max(r.Contexts, 1) != n || r.UID != first.UID || r.Sample != first.Sample {
				return nil, fmt.Errorf("row %d (%s, sample %d, context %d of %d) is not context %d of the episode before it (%s, sample %d)",
					start+i, r.UID, r.Sample, r.Context, max(r.Contexts, 1), i, first.UID, first.Sample)
			}
		}
		spans = append(spans, [2]int{start, start + n})
		start += n
	}
	return spans, nil
}

// ByEpisode joins the contexts of each episode into one row and calls f with these
// rows. It then copies scores and new per-token slices from these rows to the
// argument rows. If every episode has one context, f receives the argument rows.
func ByEpisode(rows []Row, f func(episodes []Row) error) error {
	spans, err := EpisodeSpans(rows)
	if err != nil {
		return err
	}
	if len(spans) == len(rows) {
		return f(rows)
	}
	episodes := make([]Row, len(spans))
	for i, s := range spans {
		if episodes[i], err = joined(rows[s[0]:s[1]]); err != nil {
			return err
		}
	}
	if err := f(episodes); err != nil {
		return err
	}
	for i, s := range spans {
		e := &episodes[i]
		at := 0
		for j := s[0]; j < s[1]; j++ {
			r := &rows[j]
			end := at + len(r.Tokens)
			r.Score, r.EnvReward, r.Parts = e.Score, e.EnvReward, e.Parts
			to := r.floats()
			for k, f := range e.floats() {
				switch {
				case *f.values == nil:
					*to[k].values = nil
				case len(*f.values) != len(e.Tokens):
					return fmt.Errorf("row %d (%s): %s has %d entries for the episode's %d tokens", j, r.UID, f.name, len(*f.values), len(e.Tokens))
				default:
					*to[k].values = (*f.values)[at:end:end]
				}
			}
			at = end
		}
	}
	return nil
}

// joined joins the rows of an episode's contexts into a new row, which the caller may
// change. Updates skip contexts without a sampled token, so the rows of these contexts
// may lack a slice that the other rows have. The new row then has zeros there.
func joined(rows []Row) (Row, error) {
	e := rows[0]
	e.Context, e.Contexts = 0, 0
	e.Tokens, e.Mask, e.Turns = nil, nil, nil
	for _, f := range e.floats() {
		*f.values = nil
	}
	for i := range rows {
		r := &rows[i]
		at := len(e.Tokens)
		from := r.floats()
		for j, f := range e.floats() {
			present := slices.ContainsFunc(rows, func(r Row) bool { return *r.floats()[j].values != nil })
			switch values := *from[j].values; {
			case values != nil:
				*f.values = append(*f.values, values...)
			case present && r.SampledTokens() == 0:
				*f.values = append(*f.values, make([]float32, len(r.Tokens))...)
			case present:
				return e, fmt.Errorf("%s, sample %d: some of its contexts have %s and some not", r.UID, r.Sample, f.name)
			}
		}
		e.Tokens, e.Mask = append(e.Tokens, r.Tokens...), append(e.Mask, r.Mask...)
		for _, t := range r.Turns {
			t.Start, t.End = t.Start+at, t.End+at
			e.Turns = append(e.Turns, t)
		}
	}
	return e, nil
}
