// Package doctor examines whether a machine can run openmanus: processor, memory, libraries, GPU, disks, limits, ports,
// Python, locale, clock and proxies. Each examination is one file. The package changes nothing on the machine, except that it
// creates and removes a temporary file in the folders of runs and of models. It keeps no state.
package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openmanus/openmanus/internal/textwidth"
)

// Level is the importance of a finding.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // training works, but slower or only in part
	Fail Level = "fail" // training does not work
)

// Finding is the result of one examination.
type Finding struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Value  string `json:"value"`
	Advice string `json:"advice,omitempty"` // an action for the user
}

// Machine is the part of the machine that Examine looks at.
type Machine struct {
	Getenv   func(string) string
	Environ  []string
	Now      time.Time
	Root     string // folder of the files of the system; "": /
	Runs     string // folder of the runs
	Cache    string // folder of the hub's models
	Episodes int    // concurrent episodes of a run
	Ports    []int  // ports of the servers that openmanus starts by default
}

// limit bounds the time of one examination.
const limit = 20 * time.Second

// Examine runs all examinations and returns their findings in order. A failed examination is a finding, not an error.
func Examine(ctx context.Context, m Machine) []Finding {
	var all []Finding
	for _, examine := range []func(context.Context, *Machine) []Finding{
		processor, memory, libraries, gpu, disks, limits, ports, python, locale, clock, proxies,
	} {
		ctx, cancel := context.WithTimeout(ctx, limit)
		all = append(all, examine(ctx, &m)...)
		cancel()
	}
	return all
}

// Failed returns the number of findings that prevent training.
func Failed(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Level == Fail {
			n++
		}
	}
	return n
}

// Text formats findings as a table, with the advice below each row.
func Text(findings []Finding) string {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{string(f.Level), f.Name, f.Value})
		if f.Advice != "" {
			rows = append(rows, []string{"", "", f.Advice})
		}
	}
	return textwidth.Table("llt", rows)
}

// ok returns a finding without advice.
func ok(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: OK, Value: fmt.Sprintf(format, args...)}
}

// read returns the content of a file of the system, or "" if it cannot be read.
func (m *Machine) read(path string) string {
	text, err := os.ReadFile(filepath.Join(m.Root, "/", path))
	if err != nil { // the file depends on the kernel and on the container
		return ""
	}
	return string(text)
}

// glob returns the files of the system that match a pattern.
func (m *Machine) glob(pattern string) []string {
	files, err := fs.Glob(os.DirFS(filepath.Join(m.Root, "/")), strings.TrimPrefix(pattern, "/"))
	if err != nil {
		return nil
	}
	for i := range files {
		files[i] = "/" + files[i]
	}
	return files
}

// field returns the value of the first line "name : value" of a text.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// gigabytes formats a number of bytes.
func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
