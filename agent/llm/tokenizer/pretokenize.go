package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// span is text[from:to]; match is true for a match of a pattern, false for a gap.
type span struct {
	from, to int
	match    bool
}

// splitter calls the function match for each range of text that it finds. The
// ranges are in order and do not overlap.
type splitter func(text []rune, match func(from, to int))

// spans returns consecutive spans that cover text: the matches and the gaps between them.
func (by splitter) spans(text []rune) (all []span) {
	prev := 0
	by(text, func(from, to int) {
		if from > prev {
			all = append(all, span{prev, from, false})
		}
		all = append(all, span{from, to, true})
		prev = to
	})
	if prev < len(text) {
		all = append(all, span{prev, len(text), false})
	}
	return all
}

// split is a pre-tokenizer step: a pattern and the treatment of its matches.
type split struct {
	by     splitter
	invert bool
	drop   bool                            // omit the matches
	joins  func(previous, match bool) bool // reports whether a span is appended to the previous span
}

func newSplit(by splitter, behavior string, invert bool) (*split, error) {
	s := &split{by: by, invert: invert, drop: behavior == "Removed"}
	switch behavior {
	case "Removed", "Isolated":
		s.joins = func(_, _ bool) bool { return false }
	case "Contiguous":
		s.joins = func(previous, match bool) bool { return previous == match }
	case "MergedWithPrevious":
		s.joins = func(previous, match bool) bool { return match && !previous }
	case "MergedWithNext":
		s.joins = func(previous, match bool) bool { return previous && !match }
	default:
		return nil, fmt.Errorf("unknown split behavior %q", behavior)
	}
	return s, nil
}

// apply appends the pieces of text to dst. The match field of a piece has no meaning.
func (s *split) apply(dst []span, text []rune) []span {
	out := dst
	previous := false
	for i, p := range s.by.spans(text) {
		match := p.match != s.invert
		switch {
		case match && s.drop:
		case i > 0 && s.joins(previous, match):
			out[len(out)-1].to = p.to
		default:
			out = append(out, p)
		}
		previous = match
	}
	return out
}

// literal splits at every occurrence of a fixed string.
func literal(s []rune) splitter {
	return func(text []rune, match func(from, to int)) {
		for i := 0; len(s) > 0 && i+len(s) <= len(text); {
			if slices.Equal(text[i:i+len(s)], s) {
				match(i, i+len(s))
				i += len(s)
			} else {
				i++
			}
		}
	}
}

// digits splits off every single numeric rune.
func digits(text []rune, match func(from, to int)) {
	for i, r := range text {
		if isNumeric(r) {
			match(i, i+1)
		}
	}
}

// gpt2Pattern is the pattern of the ByteLevel step. (Radford et al. 2019,
// "Language Models are Unsupervised Multitask Learners", encoder.)
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// preTokenizer splits a text into words: first with the steps in splits, then with ByteLevel.
type preTokenizer struct {
	splits      []*split
	prefixSpace bool     // add a space before each piece
	words       splitter // splits the pieces; nil if use_regex is false
}

// each calls the function word with each pre-token of text, in order.
func (p *preTokenizer) each(text string, word func(string)) {
	runes := []rune(text)
	pieces := []span{{0, len(runes), false}}
	var local, next []span
	for _, s := range p.splits {
		next = next[:0]
		for _, piece := range pieces {
			local = s.apply(local[:0], runes[piece.from:piece.to])
			for _, l := range local {
				if l.to > l.from {
					next = append(next, span{piece.from + l.from, piece.from + l.to, false})
				}
			}
		}
		pieces, next = next, pieces
	}
	at := cursor{text: text}
	for _, piece := range pieces {
		part := runes[piece.from:piece.to]
		if p.prefixSpace && part[0] != ' ' {
			part = append([]rune{' '}, part...)
			p.cut(part, string(part), word)
		} else {
			p.cut(part, at.slice(runes, piece.from, piece.to), word)
		}
	}
}

// cut calls the function word with each pre-token of a piece. The piece is given as runes and as text.
func (p *preTokenizer) cut(runes []rune, text string, word func(string)) {
	if p.words == nil {
		word(text)
		return
	}
	at := cursor{text: text}
	for _, s := range p.words.spans(runes) {
		if s.to > s.from {
			word(at.slice(runes, s.from, s.to))
		}
	}
}

// cursor maps ascending rune positions of a text to slices of the text, so that
// words need no copy.
type cursor struct {
	text   string
	rune   int
	offset int
}

func (c *cursor) slice(runes []rune, from, to int) string {
	c.advance(runes, from)
	start := c.offset
	c.advance(runes, to)
	return c.text[start:c.offset]
}

func (c *cursor) advance(runes []rune, to int) {
	for ; c.rune < to; c.rune++ {
		c.offset += utf8.RuneLen(runes[c.rune])
	}
}
