package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	Source string // the file's name, or "--set"
	Line   int    // 1-based; 0 where the fault has no line
	Key    string // "actor.optim.lr", "env.0.tasks"; "" for faults of the whole file
	Msg    string // the fault and the allowed values
}

// Error returns the source, the key and the message as one line.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(f.Source)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		key := f.Key
		if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
			key = strconv.Quote(key) // control characters must not reach the terminal
		}
		b.WriteString(key + ": ")
	}
	b.WriteString(f.Msg)
	return b.String()
}

// Faults are all faults of one configuration, in the order of the file.
type Faults []Fault

// Error returns the faults one to a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// add appends a fault about key.
func (fs *Faults) add(key, format string, args ...any) {
	*fs = append(*fs, Fault{Key: key, Msg: fmt.Sprintf(format, args...)})
}

// about(key) reports whether fs has a fault of this key.
func (fs Faults) about(key string) bool {
	return slices.ContainsFunc(fs, func(f Fault) bool { return f.Key == key })
}

// with(...) returns fs followed by those of the given faults whose keys have no fault in fs.
func (fs Faults) with(more Faults) Faults {
	out := fs
	for _, f := range more {
		if !fs.about(f.Key) {
			out = append(out, f)
		}
	}
	return out
}
