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
// looks up by a word in them.
//
// Differs from upstream in: an episode finds what its own turns stored and
// what the memory file held when the run began, not what other episodes are
// storing meanwhile. Otherwise what it reads would depend on how fast they
// are, and one sample of a group would learn from another.

const (
	memoryLines = 100     // that can be found: the newest
	memoryHits  = 3       // that a query is answered with
	memoryRead  = 1 << 20 // bytes of a memory file that are looked at, from its end
)

// memory is that of one episode.
type memory struct {
	episode string
	file    *memoryFile // nil: none
	lines   []string    // oldest first
}

// store takes a text in as one line.
func (m *memory) store(step int, text string) error {
	line := fmt.Sprintf("[E:%s|S:%d] %s", oneLine(m.episode), step, oneLine(text))
	m.lines = append(m.lines, line)
	m.lines = m.lines[max(0, len(m.lines)-memoryLines):]
	return m.file.append(line)
}

// find gives the newest lines that hold the query, in any case.
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

// oneLine is a text without line ends and control characters.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)), " ")
}

// memoryFile is where the memories of a run's episodes are written down.
type memoryFile struct {
	path string
	old  []string // what it held when it was opened

	mu sync.Mutex // one line at a time
}

// openMemory reads the end of a memory file. One that is not there yet is
// made, so that a folder that cannot be written to is found out now.
func openMemory(path string) (*memoryFile, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // before opening: a named pipe would wait
		return nil, fmt.Errorf("memory file %s: not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("memory file %s: %w", path, err)
	}
	from := max(0, end-memoryRead)
	text, err := io.ReadAll(io.NewSectionReader(f, from, end-from))
	if err != nil {
		return nil, fmt.Errorf("memory file %s: %w", path, err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' { // a line that was being written when a run was killed
		if _, err := f.WriteAt([]byte("\n"), end); err != nil {
			return nil, fmt.Errorf("memory file: %w", err)
		}
	}
	m := &memoryFile{path: path}
	lines := strings.Split(string(text), "\n")
	if from > 0 {
		lines = lines[1:] // it began in the middle
	}
	for _, line := range lines {
		if line = oneLine(strings.ToValidUTF8(line, "\uFFFD")); line != "" {
			m.old = append(m.old, line)
		}
	}
	m.old = m.old[max(0, len(m.old)-memoryLines):]
	return m, nil
}

// append writes a line down; where there is no file it does nothing. The file
// is opened for each: an episode stores few, and nobody need close it.
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
