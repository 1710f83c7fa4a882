package engine

import "strings"

// stopScan searches for stop strings in text that arrives in pieces.
type stopScan struct {
	stops []string
	keep  int // number of trailing bytes of old text that could begin a stop string
	tail  string
}

func newStopScan(stops []string) *stopScan {
	s := &stopScan{stops: stops}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	return s
}

// push appends text and reports whether it completes a stop string.
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
