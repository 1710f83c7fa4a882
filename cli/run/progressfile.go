package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// rowFile stores the finished rows of a command that processes a file row by
// row, in OUT.progress: a line that describes the work, then a line per row. The
// same command resumes from it. OUT itself is written atomically at the end.
// Without OUT, the rows are kept in memory only.
type rowFile[T any] struct {
	host *Host
	path string

	mu   sync.Mutex
	rows map[int]T      // guarded by mu
	out  io.WriteCloser // nil without OUT; guarded by mu
}

// maxRowFile bounds the size in bytes of the file.
const maxRowFile = 2 << 30

type rowLine[T any] struct {
	Row  int `json:"row"`
	Data T   `json:"data"`
}

// openRowFile opens the progress file of the output file out. work holds everything that
// the output depends on. With replace, openRowFile starts a new file. Otherwise a file
// that describes other work is an error. The function valid checks a row of the file.
func openRowFile[T any](h *Host, out string, work any, replace bool, valid func(row int, v T) bool) (*rowFile[T], error) {
	head, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	r := &rowFile[T]{host: h, path: out + ".progress", rows: map[int]T{}}
	text, err := h.ReadFile(r.path, maxRowFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errext.With(errext.Disk, "", err)
	}
	begin, rest, whole := bytes.Cut(text, []byte("\n"))
	switch {
	case replace || !whole || bytes.IndexByte(rest, '\n') < 0: // replace a file without a finished row
		begin, rest = head, nil
	case !bytes.Equal(begin, head):
		return nil, errext.With(errext.Input, "use the same arguments to resume, or --force to start again",
			fmt.Errorf("%s was started with other settings: %s", r.path, workChanges(begin, head)))
	}
	// Drop the incomplete line of a killed process.
	rest = rest[:bytes.LastIndexByte(rest, '\n')+1]
	for line := range bytes.Lines(rest) {
		var l rowLine[T]
		err := json.Unmarshal(line, &l)
		if err == nil && !valid(l.Row, l.Data) {
			err = fmt.Errorf("row %d is invalid", l.Row)
		}
		if err != nil {
			return nil, errext.With(errext.Input, "use --force to start again", fmt.Errorf("%s: %w", r.path, err))
		}
		r.rows[l.Row] = l.Data
	}
	// Write now, so that an unwritable folder is reported before any work.
	if err := h.WriteFile(r.path, append(append(bytes.Clone(begin), '\n'), rest...), true); err != nil {
		return nil, err
	}
	if r.out, err = h.Append(r.path); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	return r, nil
}

// missing returns the rows from 0 to n-1 that are not finished.
func (r *rowFile[T]) missing(n int) []int {
	var rows []int
	for i := range n {
		if _, ok := r.rows[i]; !ok {
			rows = append(rows, i)
		}
	}
	return rows
}

// add stores the result of a row and returns the number of finished rows. It may
// be called concurrently.
func (r *rowFile[T]) add(row int, v T) (int, error) {
	line, err := json.Marshal(rowLine[T]{row, v})
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[row] = v
	if r.out != nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	return len(r.rows), errext.With(errext.Disk, "finished rows are kept: run the same command to resume", err)
}

// close closes the file, and removes it if it has no row or if OUT is written.
func (r *rowFile[T]) close(written bool) error {
	if r.out == nil {
		return nil
	}
	err := r.out.Close()
	if written || len(r.rows) == 0 {
		err = errors.Join(err, r.host.Remove(r.path))
	}
	return errext.With(errext.Disk, "", err)
}

// workChanges returns the differences between the work of a progress file and
// the current work. Parts of [reward] have the names of their keys.
func workChanges(was, now []byte) string {
	before, after := workParts(was), workParts(now)
	both := maps.Clone(before)
	maps.Copy(both, after)
	changes := configs.Diff(rewardPart(was), rewardPart(now))
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if before[key] != after[key] {
			changes = append(changes, configs.Change{Key: key, Old: before[key], New: after[key]})
		}
	}
	if len(changes) == 0 {
		return "another version of openmanus may have written it"
	}
	var out []string
	for _, c := range changes {
		out = append(out, c.String())
	}
	return strings.Join(out, "; ")
}

// workParts returns the parts of work as JSON, without [reward]. It returns no parts
// for an invalid line.
func workParts(line []byte) map[string]string {
	var work map[string]json.RawMessage
	_ = json.Unmarshal(line, &work)
	delete(work, "reward")
	out := map[string]string{}
	for name, part := range work {
		out[name] = sha256Text.ReplaceAllString(string(part), "$1")
	}
	return out
}

// sha256Text matches a SHA-256 and captures the first digits, which error messages show.
var sha256Text = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\b`)

func rewardPart(line []byte) configs.Config {
	c := Schema.Defaults()
	_ = json.Unmarshal(line, &struct{ Reward *configs.Reward }{&c.Reward})
	return c
}
