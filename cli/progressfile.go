package cli

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

// rowFile is the work so far of a command that does something for every row of
// a file: OUT.progress, a line that says what is done and then a line a row.
// A command that is started again goes on from it; OUT itself appears whole or
// not at all. There is none while no row is done: nothing would be lost.
type rowFile struct {
	s    *State
	path string
	done map[int]json.RawMessage

	mu  sync.Mutex
	out io.WriteCloser // guarded by mu
}

// maxRowFile is how much of such a file is read.
const maxRowFile = 2 << 30

type rowLine struct {
	Row  int             `json:"row"`
	Data json.RawMessage `json:"data"`
}

// openRowFile opens the progress of out. Work is everything that decides what
// comes out: a file that was begun with other work is refused, or, with anew,
// begun again.
func (s *State) openRowFile(out string, work any, anew bool) (*rowFile, error) {
	head, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	r := &rowFile{s: s, path: out + ".progress", done: map[int]json.RawMessage{}}
	text, err := s.ReadFile(r.path, maxRowFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errext.With(errext.Disk, "", err)
	}
	begin, rest, whole := bytes.Cut(text, []byte("\n"))
	switch {
	case anew || !whole || bytes.IndexByte(rest, '\n') < 0: // nothing, or not even one row
		begin, rest = head, nil
	case !bytes.Equal(begin, head):
		return nil, errext.With(errext.Input, "give the same arguments to go on with it, or --force to begin anew",
			fmt.Errorf("%s was begun with other work: %s", r.path, workChanges(begin, head)))
	}
	// A line that a killed process left unfinished is dropped.
	rest = rest[:bytes.LastIndexByte(rest, '\n')+1]
	for line := range bytes.Lines(rest) {
		var l rowLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, errext.With(errext.Input, "--force begins anew", fmt.Errorf("%s: %w", r.path, err))
		}
		r.done[l.Row] = l.Data
	}
	// Written at once, so that a place where nothing can be written is found
	// before the first row is worked on.
	if err := s.WriteFile(r.path, append(append(bytes.Clone(begin), '\n'), rest...), true); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	if r.out, err = s.Append(r.path); err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	return r, nil
}

// add writes down what was done for a row. It may be called by many
// goroutines.
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
	return errext.With(errext.Disk, "the rows before are kept: start it again to go on", err)
}

// close keeps the file for the next time, unless there is nothing in it.
func (r *rowFile) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.out.Close()
	if len(r.done) == 0 {
		err = errors.Join(err, r.s.Remove(r.path))
	}
	return errext.With(errext.Disk, "", err)
}

// finish removes the file: its work is in the output.
func (r *rowFile) finish() error {
	if err := r.s.Remove(r.path); !errors.Is(err, fs.ErrNotExist) { // of no rows there is none
		return errext.With(errext.Disk, "", err)
	}
	return nil
}

// workChanges says in what the work differs that a progress file was begun
// with: "key: was, now" of every part that does. Parts of a [reward] section
// have the names that they have there.
func workChanges(was, now []byte) string {
	before, after := workParts(was), workParts(now)
	var out []string
	add := func(key, old, new string) {
		out = append(out, fmt.Sprintf("%s: was %s, now %s", key, cmp.Or(old, "nothing"), cmp.Or(new, "nothing")))
	}
	if before["command"] != after["command"] { // whose parts are others
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
		return "another version of openmanus may have begun it"
	}
	return strings.Join(out, "; ")
}

// workParts are the parts of a piece of work, those in parts as a.b, without
// the [reward] section; none where the line is not what openmanus writes.
func workParts(line []byte) map[string]string {
	var work map[string]any
	_ = json.Unmarshal(line, &work) // whatever else it is differs in its command
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
		if err != nil { // it was JSON
			return
		}
		out[key] = sha256Text.ReplaceAllString(string(text), "$1")
	}
	for name, v := range work {
		add(name, v)
	}
	return out
}

// sha256Text is a hash, of which the beginning is enough to tell two apart.
var sha256Text = regexp.MustCompile(`^"([0-9a-f]{12})[0-9a-f]{52}"$`)

func rewardPart(line []byte) configs.Config {
	c := schema.Defaults()
	_ = json.Unmarshal(line, &struct{ Reward *configs.Reward }{&c.Reward})
	return c
}
