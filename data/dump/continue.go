package dump

import (
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
)

// Continue opens a dump to append to it, or creates it. The header must be that of
// the dump. An incomplete last line is cut off, and so are the episodes of an
// incomplete wave, since the missing episodes would have shared its batches.
// Episodes for which drop, if not nil, returns true are removed; visit receives
// the others. Both see them without tokens and texts.
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
	var kept keptLines
	seen := false
	end, compressed, err := scan(f, func(line []byte, end int64) error {
		if seen {
			return kept.add(line, end)
		}
		seen = true
		was, err := parseHeader(line)
		if err != nil {
			return err
		}
		if diff := was.Differences(h); len(diff) > 0 {
			return fmt.Errorf("it was begun with other options:\n  %s\nuse the same options, or choose another file", strings.Join(diff, "\n  "))
		}
		kept.end = end
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !seen {
		if err := checkTornHeader(f, compressed); err != nil {
			return nil, err
		}
		return start(f, path, compressed || compressedName(path), h)
	}
	if end, err = kept.wholeWaves(end); err != nil {
		return nil, err
	}
	keep, waves, left := make([]bool, len(kept.episodes)), map[int]int{}, 0
	for i, e := range kept.episodes {
		if drop != nil && drop(e) {
			continue
		}
		keep[i] = true
		left++
		waves[e.Wave]++
		if err := visit(e); err != nil {
			return nil, err
		}
	}
	if left < len(keep) {
		return rewrite(f, path, h.Weights, compressed, keep, waves)
	}
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	return newWriter(f, path, h.Weights, compressed, end)
}

// keptLines holds the episodes of a dump to continue, without their tokens and
// texts, so that a large dump fits into memory.
type keptLines struct {
	episodes []*data.Episode
	before   []int64 // offset of each episode's line; 0 if the file cannot be cut there
	end      int64   // offset after the last line
}

func (k *keptLines) add(line []byte, end int64) error {
	var l episodeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("episode %d: %w", len(k.episodes), err)
	}
	e := l.episode()
	e.Tokens, e.Mask, e.LogProbs, e.Turns, e.Messages, e.Exchanges, e.Created = nil, nil, nil, nil, nil, nil, nil
	k.episodes = append(k.episodes, e)
	k.before = append(k.before, k.end)
	k.end = end
	return nil
}

// wholeWaves drops the episodes of the last wave if it is incomplete. It returns the
// offset where the file is to be cut, end if nothing is dropped.
func (k *keptLines) wholeWaves(end int64) (int64, error) {
	n := len(k.episodes)
	if n == 0 || k.episodes[n-1].Wave == 0 {
		return end, nil
	}
	last := k.episodes[n-1]
	first := n
	for first > 0 && k.episodes[first-1].Wave == last.Wave {
		first--
	}
	if n-first >= last.WaveSize {
		return end, nil
	}
	if k.before[first] == 0 {
		return 0, fmt.Errorf("wave %d is incomplete and cannot be cut off, since the file was compressed again: decompress it and continue the plain file", last.Wave)
	}
	end, k.episodes = k.before[first], k.episodes[:first]
	return end, nil
}

// checkTornHeader verifies that a file without a complete line is empty or the
// beginning of a dump.
func checkTornHeader(f *os.File, compressed bool) error {
	if compressed {
		// The content of an incomplete frame is unknown, but a header is short.
		if st, err := f.Stat(); err != nil || st.Size() > 64<<10 {
			return errors.Join(err, errors.New("it is not a dump: choose another file"))
		}
		return nil
	}
	const begin = `{"format":"` + Format + `"`
	buf := make([]byte, len(begin))
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.HasPrefix(begin, string(buf[:n])) {
		return errors.New("it is not a dump: choose another file")
	}
	return nil
}

// TasksOption is the option with the digest of the list of tasks, since a file of
// tasks may change under the same name. Older dumps lack it and are continued
// without.
const TasksOption = "tasks_digest"

// Differences describes the differences between two headers, one per entry.
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

// asRead returns options as they are read from a file, with numbers as json.Number:
// seeds have more digits than a float64.
func asRead(options map[string]any) map[string]any {
	var out map[string]any
	d := json.NewDecoder(strings.NewReader(asJSON(options)))
	d.UseNumber()
	_ = d.Decode(&out) // what asJSON wrote
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
