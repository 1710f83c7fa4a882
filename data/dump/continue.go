package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/plainjson"
)

// Continue opens a dump to append to it, or creates it. An existing dump must have the
// header h. Continue removes an incomplete last line and the episodes of an incomplete
// last wave, because they depend on the missing episodes of the same batches. It also
// removes the episodes for which the function drop, if not nil, returns true. It calls
// visit with the other episodes. The arguments of drop and visit have no tokens and texts.
func Continue(path string, h Header, drop func(*data.Episode) bool, visit func(*data.Episode) error) (*Writer, error) {
	f, err := openToWrite(path)
	if err != nil {
		return nil, fmt.Errorf("continue dump: %w", err)
	}
	w, err := resume(f, path, h, drop, visit)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("continue dump %s: %w", path, err), f.Close())
	}
	return w, nil
}

func resume(f *os.File, path string, h Header, drop func(*data.Episode) bool, visit func(*data.Episode) error) (*Writer, error) {
	var episodes []*data.Episode
	seen := false
	lines, end, err := scan(f, func(line []byte) error {
		if seen {
			e, err := outline(line)
			if err != nil {
				return fmt.Errorf("episode %d: %w", len(episodes), err)
			}
			episodes = append(episodes, e)
			return nil
		}
		seen = true
		was, err := parseHeader(line)
		if err != nil {
			return err
		}
		if diff := was.Differences(h); len(diff) > 0 {
			return fmt.Errorf("it was begun with other options:\n  %s\nuse the same options, or choose another file", strings.Join(diff, "\n  "))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	compressed := lines.Compressed()
	if !seen {
		if err := checkTornHeader(f); err != nil {
			return nil, err
		}
		return start(f, path, compressed || compressedName(path), h)
	}
	keep, waves := make([]bool, len(episodes)), map[int]int{}
	for i, e := range wholeWaves(episodes) {
		if drop != nil && drop(e) {
			continue
		}
		keep[i] = true
		waves[e.Wave]++
		if err := visit(e); err != nil {
			return nil, err
		}
	}
	if slices.Contains(keep, false) || compressed && lines.Torn() {
		return rewrite(f, path, h.Weights, compressed, keep, waves)
	}
	if compressed {
		if end, err = f.Seek(0, io.SeekEnd); err != nil {
			return nil, err
		}
	} else if err := f.Truncate(end); err != nil {
		return nil, err
	}
	return newWriter(f, path, h.Weights, compressed, end)
}

// outline parses the line of an episode without its tokens and texts, so that the
// outlines of a large dump fit into memory.
func outline(line []byte) (*data.Episode, error) {
	var l episodeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	e := l.episode()
	e.Tokens, e.Mask, e.LogProbs, e.Turns, e.Messages, e.Exchanges, e.Created = nil, nil, nil, nil, nil, nil, nil
	return e, nil
}

// wholeWaves returns the episodes, without those of an incomplete last wave.
func wholeWaves(episodes []*data.Episode) []*data.Episode {
	n := len(episodes)
	if n == 0 || episodes[n-1].Wave == 0 {
		return episodes
	}
	last := episodes[n-1]
	first := n
	for first > 0 && episodes[first-1].Wave == last.Wave {
		first--
	}
	if n-first >= last.WaveSize {
		return episodes
	}
	return episodes[:first]
}

// checkTornHeader verifies that a file without a complete line is empty or the
// beginning of a dump.
func checkTornHeader(f *os.File) error {
	const begin = `{"format":"` + Format + `"`
	st, err := f.Stat()
	if err != nil {
		return err
	}
	text := make([]byte, min(int(st.Size()), len(begin)))
	if _, err := f.ReadAt(text, 0); err != nil {
		return err
	}
	// A short compressed file may be a header whose frame is incomplete.
	packed := bytes.HasPrefix(zstdMagic, text[:min(len(text), len(zstdMagic))]) && st.Size() <= 64<<10
	if !packed && !strings.HasPrefix(begin, string(text)) {
		return errors.New("it is not a dump: choose another file")
	}
	return nil
}

// TasksOption is the option with the digest of the list of tasks, since a file of
// tasks may change under the same name. Older dumps lack the option; Continue
// accepts them.
const TasksOption = "tasks_digest"

// Differences describes each difference between two headers in one string.
func (h Header) Differences(now Header) []string {
	var out []string
	if h.Weights != now.Weights {
		out = append(out, fmt.Sprintf("weights: %q then, %q now", h.Weights, now.Weights))
	}
	a, b := asRead(h.Options), asRead(now.Options)
	keys := map[string]bool{}
	for _, m := range []map[string]any{a, b} {
		for k := range m {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if k == TasksOption && a[k] == nil { // an older dump
			continue
		}
		if !reflect.DeepEqual(a[k], b[k]) {
			out = append(out, fmt.Sprintf("%s: %s then, %s now", k, asJSON(a[k]), asJSON(b[k])))
		}
	}
	return out
}

// asRead returns options as they are read from a file, with numbers as json.Number,
// because a float64 cannot represent every seed.
func asRead(options map[string]any) map[string]any {
	var out map[string]any
	_ = plainjson.Unmarshal([]byte(asJSON(options)), &out)
	return out
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	if v == nil {
		return "nothing"
	}
	return string(text)
}
