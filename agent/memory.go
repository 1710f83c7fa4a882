package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// The memory of the format staged (spec 11.4): lines that the model stores and
// finds by a word in them.
//
// Differs from upstream in: an episode finds the lines that it stored and the lines
// that the memory file had at the start of the run, but not the lines that other
// episodes store meanwhile. Otherwise its prompts would depend on timing, and
// one sample of a group would learn from another.

const (
	memoryLines = 100 // number of newest lines that a query searches
	memoryHits  = 3   // number of lines in the answer to a query
)

// memory is the memory of one episode.
type memory struct {
	episode string
	file    *memoryFile // nil: none
	lines   []string    // oldest first
}

// store appends a text as one line.
func (m *memory) store(step int, text string) error {
	line := fmt.Sprintf("[E:%s|S:%d] %s", oneLine(m.episode), step, oneLine(text))
	m.lines = append(m.lines, line)
	m.lines = m.lines[max(0, len(m.lines)-memoryLines):]
	return m.file.append(line)
}

// find returns the newest lines that contain the query, ignoring case.
func (m *memory) find(query string) []string {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return nil
	}
	var hits []string
	for _, line := range slices.Backward(m.lines) {
		if strings.Contains(strings.ToLower(line), query) {
			if hits = append(hits, line); len(hits) == memoryHits {
				break
			}
		}
	}
	return hits
}

// oneLine replaces line ends and control characters in a text by spaces.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)), " ")
}

// memoryFile is the file to which all episodes of a run append their memories.
type memoryFile struct {
	path string
	old  []string // lines of the file when it was opened

	mu sync.Mutex // serialises writes
}

// openMemory reads a memory file. It creates a missing file, so that
// a folder without write access is reported at the start.
func openMemory(path string) (*memoryFile, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // check before opening: opening a named pipe would block
		return nil, fmt.Errorf("memory file %s: not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("memory file %s: %w", path, err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' { // the last line is incomplete: a run was killed while writing it
		if _, err := f.WriteString("\n"); err != nil {
			return nil, fmt.Errorf("memory file: %w", err)
		}
	}
	m := &memoryFile{path: path}
	for line := range strings.Lines(string(text)) {
		if line = oneLine(strings.ToValidUTF8(line, "\uFFFD")); line != "" {
			m.old = append(m.old, line)
		}
	}
	m.old = m.old[max(0, len(m.old)-memoryLines):]
	return m, nil
}

// append writes a line to the file; on a nil memoryFile it does nothing. It opens
// and closes the file for each line, because an episode stores few.
func (m *memoryFile) append(line string) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	return nil
}
