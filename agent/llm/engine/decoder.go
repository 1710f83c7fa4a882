package engine

import (
	"strings"
	"unicode/utf8"
)

// Decoder turns the ids of one reply into text as they come.
type Decoder interface {
	// Push returns the text that id adds. It may hold text back, such as the
	// first bytes of a character, and return it with a later id.
	Push(id int32) string
}

// IncrementalDecoder makes decoders out of a function that decodes whole
// sequences. Decoding one id at a time would lose the spaces and characters
// that span ids, and decoding the whole reply each time would cost its length
// squared, so each step decodes only from the last id after which the text
// was complete, with one stretch before it as context.
func IncrementalDecoder(decode func(ids []int32) string) func() Decoder {
	return func() Decoder { return &incremental{decode: decode} }
}

type incremental struct {
	decode func([]int32) string
	ids    []int32 // from the start of the context stretch on
	read   int     // ids[:read] are the context, whose text was returned
}

// holdBack is the most ids after which incomplete text is given out as it is:
// no character spans more, so what still does not decode never will.
const holdBack = 8

func (d *incremental) Push(id int32) string {
	d.ids = append(d.ids, id)
	before := d.decode(d.ids[:d.read])
	after := d.decode(d.ids)
	if strings.HasSuffix(after, string(utf8.RuneError)) && len(d.ids)-d.read < holdBack {
		return ""
	}
	text := ""
	if len(after) > len(before) {
		text = after[len(before):]
	}
	d.ids = d.ids[d.read:]
	d.read = len(d.ids)
	return text
}

// stopScan finds the first of some strings in text that arrives in pieces.
type stopScan struct {
	stops []string
	keep  int // bytes of old text that could begin a stop string
	tail  string
}

func newStopScan(stops []string) *stopScan {
	s := &stopScan{stops: stops}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	return s
}

// push reports whether text completes a stop string.
func (s *stopScan) push(text string) bool {
	if text == "" {
		return false
	}
	s.tail += text
	for _, stop := range s.stops {
		if strings.Contains(s.tail, stop) {
			return true
		}
	}
	if cut := len(s.tail) - s.keep; cut > 0 {
		s.tail = s.tail[cut:]
	}
	return false
}
