package run

import (
	"bytes"
	"cmp"
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
// The file is removed if it has no row.
type rowFile struct {
	host *Host
	path string
	done map[int]json.RawMessage

	mu  sync.Mutex
	out io.WriteCloser // guarded by mu
}

// maxRowFile bounds the size in bytes of the file.
const maxRowFile = 2 << 30

type rowLine struct {
	Row  int             `json:"row"`
	Data json.RawMessage `json:"data"`
}

// openRowFile opens the progress file of out. work holds everything that the
// output depends on. A file with other work is an error, or is replaced if replace.
func openRowFile(h *Host, out string, work any, replace bool) (*rowFile, error) {
	head, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	r := &rowFile{host: h, path: out + ".progress", done: map[int]json.RawMessage{}}
	text, err := h.ReadFile(r.path, maxRowFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errext.With(errext.Disk, "", err)
	}
	begin, rest, whole := bytes.Cut(text, []byte("\n"))
	switch {
	case replace || !whole || bytes.IndexByte(rest, '\n') < 0: // no finished row
		begin, rest = head, nil
	case !bytes.Equal(begin, head):
		return nil, errext.With(errext.Input, "use the same arguments to resume it, or --force to start again",
			fmt.Errorf("%s was started with other settings: %s", r.path, workChanges(begin, head)))
	}
	// Drop the incomplete line of a killed process.
	rest = rest[:bytes.LastIndexByte(rest, '\n')+1]
	for line := range bytes.Lines(rest) {
		var l rowLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, errext.With(errext.Input, "use --force to start again", fmt.Errorf("%s: %w", r.path, err))
		}
		r.done[l.Row] = l.Data
	}
	// Write now, so that an unwritable folder is reported before any work.
	if err := h.WriteFile(r.path, append(append(bytes.Clone(begin), '\n'), rest...), true); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	if r.out, err = h.Append(r.path); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	return r, nil
}

// add stores the result of a row. It may be called concurrently.
func (r *rowFile) add(row int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line, err := json.Marshal(rowLine{row, raw})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[row] = raw
	_, err = r.out.Write(append(line, '\n'))
	return errext.With(errext.Disk, "finished rows are kept: run the same command to resume", err)
}

// close closes the file, and removes it if it has no row.
func (r *rowFile) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.out.Close()
	if len(r.done) == 0 {
		err = errors.Join(err, r.host.Remove(r.path))
	}
	return errext.With(errext.Disk, "", err)
}

// finish removes the file after the output was written.
func (r *rowFile) finish() error {
	if err := r.host.Remove(r.path); !errors.Is(err, fs.ErrNotExist) { // close removes a file without rows
		return errext.With(errext.Disk, "", err)
	}
	return nil
}

// workChanges returns the differences between the work of a progress file and
// the current work, as "key: was …, now …". Parts of [reward] have the names of
// their keys.
func workChanges(was, now []byte) string {
	before, after := workParts(was), workParts(now)
	var out []string
	add := func(key, old, new string) {
		out = append(out, fmt.Sprintf("%s: was %s, now %s", key, cmp.Or(old, "nothing"), cmp.Or(new, "nothing")))
	}
	if before["command"] != after["command"] { // the other parts then differ too
		add("command", before["command"], after["command"])
		return out[0]
	}
	both := maps.Clone(before)
	maps.Copy(both, after)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if before[key] != after[key] {
			add(key, before[key], after[key])
		}
	}
	for _, c := range configs.Diff(rewardPart(was), rewardPart(now)) {
		add(c.Key, c.Old, c.New)
	}
	if len(out) == 0 {
		return "another version of openmanus may have written it"
	}
	return strings.Join(out, "; ")
}

// workParts flattens work into parts with dotted names, without [reward]. It
// returns none for an invalid line.
func workParts(line []byte) map[string]string {
	var work map[string]any
	_ = json.Unmarshal(line, &work) // an invalid line has no command
	delete(work, "reward")
	out := map[string]string{}
	var add func(key string, v any)
	add = func(key string, v any) {
		if parts, ok := v.(map[string]any); ok {
			for name, part := range parts {
				add(key+"."+name, part)
			}
			return
		}
		text, err := json.Marshal(v)
		if err != nil { // cannot happen: v comes from JSON
			return
		}
		out[key] = sha256Text.ReplaceAllString(string(text), "$1")
	}
	for name, v := range work {
		add(name, v)
	}
	return out
}

// sha256Text matches a hash and captures its first digits, which suffice here.
var sha256Text = regexp.MustCompile(`^"([0-9a-f]{12})[0-9a-f]{52}"$`)

func rewardPart(line []byte) configs.Config {
	c := Schema.Defaults()
	_ = json.Unmarshal(line, &struct{ Reward *configs.Reward }{&c.Reward})
	return c
}
