package tokenizer

import (
	"fmt"
	"slices"
)

// span is text[from:to]; match is true for a match of a pattern, false for a gap.
type span struct {
	from, to int
	match    bool
}

// splitter cuts a piece of text into smaller ones.
type splitter interface {
	spans(dst []span, text []rune) []span
}

// split is a pre-tokenizer step: a pattern and the treatment of its matches.
type split struct {
	by       splitter
	behavior string
	invert   bool
}

var behaviors = []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}

func newSplit(by splitter, behavior string, invert bool) (*split, error) {
	if !slices.Contains(behaviors, behavior) {
		return nil, fmt.Errorf("unknown split behavior %q", behavior)
	}
	return &split{by, behavior, invert}, nil
}

// apply appends the pieces of text to dst. Their match flags have no meaning.
func (s *split) apply(dst []span, text []rune) []span {
	start := len(dst)
	dst = s.by.spans(dst, text)
	all := dst[start:]
	if s.invert {
		for i := range all {
			all[i].match = !all[i].match
		}
	}
	out := dst[:start]
	switch s.behavior {
	case "Isolated":
		return dst
	case "Removed":
		for _, p := range all {
			if !p.match {
				out = append(out, p)
			}
		}
	case "Contiguous":
		previous := false
		for i, p := range all {
			if i > 0 && p.match == previous {
				out[len(out)-1].to = p.to
			} else {
				out = append(out, p)
			}
			previous = p.match
		}
	case "MergedWithPrevious":
		previous := false
		for i, p := range all {
			if i > 0 && p.match && !previous {
				out[len(out)-1].to = p.to
			} else {
				out = append(out, p)
			}
			previous = p.match
		}
	case "MergedWithNext":
		merged := make([]span, 0, len(all))
		previous := false
		for i := len(all) - 1; i >= 0; i-- {
			p := all[i]
			if len(merged) > 0 && p.match && !previous {
				merged[len(merged)-1].from = p.from
			} else {
				merged = append(merged, p)
			}
			previous = p.match
		}
		slices.Reverse(merged)
		out = append(out, merged...)
	}
	return out
}

// literal splits at every occurrence of a fixed string.
type literal []rune

func (l literal) spans(dst []span, text []rune) []span {
	prev := 0
	for i := 0; len(l) > 0 && i+len(l) <= len(text); {
		if !slices.Equal(text[i:i+len(l)], l) {
			i++
			continue
		}
		if i > prev {
			dst = append(dst, span{prev, i, false})
		}
		dst = append(dst, span{i, i + len(l), true})
		i += len(l)
		prev = i
	}
	if prev < len(text) {
		dst = append(dst, span{prev, len(text), false})
	}
	return dst
}

// digits splits off every single numeric rune.
type digits struct{}

func (digits) spans(dst []span, text []rune) []span {
	prev := 0
	for i, r := range text {
		if !isNumeric(r) {
			continue
		}
		if i > prev {
			dst = append(dst, span{prev, i, false})
		}
		dst = append(dst, span{i, i + 1, true})
		prev = i + 1
	}
	if prev < len(text) {
		dst = append(dst, span{prev, len(text), false})
	}
	return dst
}

// byteLevel is the last pre-tokenizer step: an optional space before each
// piece, GPT-2's own pattern unless switched off, then the byte alphabet.
type byteLevel struct {
	prefixSpace bool
	words       *pattern // nil without use_regex
}

// gpt2Pattern is the pattern inside the ByteLevel step.
// (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", encoder.)
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

type preTokenizer struct {
	splits []*split
	last   byteLevel
}

// each calls word with the pre-tokens of text, in order.
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
		if p.last.prefixSpace && part[0] != ' ' {
			spaced := append([]rune{' '}, part...)
			p.last.each(spaced, string(spaced), word)
			continue
		}
		p.last.each(part, at.slice(runes, piece.from, piece.to), word)
	}
}

func (b *byteLevel) each(runes []rune, text string, word func(string)) {
	if b.words == nil {
		word(text)
		return
	}
	at := cursor{text: text}
	for _, s := range b.words.spans(nil, runes) {
		if s.to > s.from {
			word(at.slice(runes, s.from, s.to))
		}
	}
}

// cursor turns ascending rune positions of a text into slices of it, so that
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
		c.offset += runeLen(runes[c.rune])
	}
}

func runeLen(r rune) int {
	switch {
	case r < 0x80:
		return 1
	case r < 0x800:
		return 2
	case r < 0x10000:
		return 3
	}
	return 4
}
