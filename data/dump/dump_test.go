package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
)

// dumpEpisode returns an episode with values that are hard to encode in every field.
func dumpEpisode(n int) *data.Episode {
	yes := true
	e := testEpisode(n)
	e.Seed = math.MaxUint64
	e.LogProbs = []float32{0, -0.1, -1e-30, 0, float32(-math.Pi), 0}
	e.Turns[0] = data.Turn{Start: 1, End: 3, Text: "<think>é\n\"</think>", Action: "a&b", Parsed: true, Stop: "eos", Observation: "o", Reward: -0.25, Unjudged: true, Done: true, GenMillis: 1.5, EnvMillis: 2}
	e.Messages = []data.Message{{Role: "user", Content: "x"}, {Role: "assistant", Content: "y", Loss: &yes}}
	e.Exchanges = []data.Exchange{{Method: "POST", Path: "/step?id=1", Body: `{"a":1}`, Status: 200, Reply: "{}", Millis: 0.5}, {Method: "GET", Err: "refused"}}
	e.Cumulative, e.FirstObservation, e.Server = true, "You <see>\n", "http://127.0.0.1:36001"
	e.Exchanges[0].Server = e.Server
	e.Attempts, e.Millis, e.Err = 2, 12.5, "why"
	e.Wave, e.WaveSize, e.Instruction, e.Created = n+1, 1, "Find <it>.", []data.Exchange{{Method: "POST", Path: "/create", Status: 200, Reply: `{"id":1}`}}
	return e
}

func readDump(t *testing.T, path string) (*Reader, []*data.Episode) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []*data.Episode
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r, out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

func writeDump(t *testing.T, path string, n int) {
	t.Helper()
	w, err := Create(path, Header{Weights: "abc", Options: map[string]any{"env": "maze"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Write(dumpEpisode(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDumpRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	writeDump(t, path, 3)
	r, got := readDump(t, path)
	if h := r.Header(); h.Weights != "abc" || h.Format != Format || h.Options["env"] != "maze" || r.Torn() {
		t.Errorf("header %+v, torn %v", h, r.Torn())
	}
	var want []*data.Episode
	for i := range 3 {
		want = append(want, dumpEpisode(i))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestDumpFields checks the names and forms of fields on which scripts rely.
func TestDumpFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	w, err := Create(path, Header{Weights: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	bare := &data.Episode{Task: data.Task{ID: "maze_3", Env: "maze", Index: 3}, Outcome: data.EnvError}
	if err := errors.Join(w.Write(testEpisode(2)), w.Write(bare), w.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%d lines", len(lines))
	}
	if want := `{"format":"openmanus-episodes","version":1,"weights":"abc"}`; lines[0] != want {
		t.Errorf("header %s, want %s", lines[0], want)
	}
	for i, want := range []map[string]any{
		{
			"task_id": "maze_2", "env": "maze", "index": 2.0, "sample": 2.0, "seed": 7.0, "outcome": "done", "reward": 2.0, "weights": "abc",
			"ids": []any{1.0, 2.0, 3.0, 4.0, 5.0, 2.0}, "mask": []any{0.0, 1.0, 1.0, 0.0, 1.0, 0.0}, "logprobs": []any{0.0, -1.0, -2.0, 0.0, -3.0, 0.0},
			"messages": []any{}, "exchanges": []any{},
		},
		{"task_id": "maze_3", "outcome": "env_error", "turns": []any{}, "ids": []any{}, "mask": []any{}, "logprobs": []any{}},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i+1]), &got); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if d := cmp.Diff(v, got[k]); d != "" {
				t.Errorf("line %d: %s (-want +got):\n%s", i+1, k, d)
			}
		}
	}
}

// TestDumpTornAnywhere cuts a dump at many bytes, including the ends of lines, and checks that a reader returns
// the complete lines before the cut, and that appending leaves a valid dump.
func TestDumpTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	writeDump(t, whole, 2)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cut")
	for cut := 0; cut <= len(text); cut++ {
		nearEnd := cut == len(text) || bytes.IndexByte(text[max(cut-2, 0):min(cut+2, len(text))], '\n') >= 0
		if !nearEnd && cut%41 != 0 { // skip most cuts: each one syncs the disk
			continue
		}
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text[:cut], []byte("\n"))
		torn := cut > 0 && text[cut-1] != '\n'
		if lines == 0 {
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no header") {
				t.Fatalf("cut %d: Open = %v", cut, err)
			}
		} else if r, got := readDump(t, path); len(got) != lines-1 || r.Torn() != torn {
			t.Fatalf("cut %d: %d episodes, torn %v, want %d, %v", cut, len(got), r.Torn(), lines-1, torn)
		}
		there := 0
		w, err := Continue(path, Header{Weights: "abc", Options: map[string]any{"env": "maze"}}, nil, func(*data.Episode) error { there++; return nil })
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if there != max(lines-1, 0) {
			t.Fatalf("cut %d: continued with %d episodes, want %d", cut, there, max(lines-1, 0))
		}
		if err := errors.Join(w.Write(dumpEpisode(9)), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, got := readDump(t, path)
		if want := max(lines-1, 0) + 1; len(got) != want || r.Torn() || got[want-1].Sample != 9 {
			t.Fatalf("cut %d: %d episodes after appending, want %d", cut, len(got), want)
		}
	}
}

func TestDumpErrors(t *testing.T) {
	header := `{"format":"openmanus-episodes","version":1,"weights":"abc"}` + "\n"
	for name, tc := range map[string]struct{ text, open, next, app string }{
		"other JSON":     {"{\"a\":1}\n", "not the header", "", "not the header"},
		"text":           {"hello\nworld\n", "not the header", "", "not the header"},
		"one line":       {"precious", "no header", "", "not a dump"},
		"other version":  {"{\"format\":\"openmanus-episodes\",\"version\":2}\n", "version 2", "", "version 2"},
		"broken episode": {header + "{\n", "", "line 2", "episode 0"},
		"bad mask":       {header + "{\"mask\":[0,2]}\n", "", "line 2: mask[1] is 2", "mask[1] is 2"},
		"other weights":  {strings.Replace(header, "abc", "xyz", 1), "", "EOF", `weights: "xyz" then, "abc" now`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if tc.open != "" {
				if err == nil || !strings.Contains(err.Error(), tc.open) {
					t.Errorf("Open = %v, want %q", err, tc.open)
				}
			} else if err != nil {
				t.Errorf("Open = %v", err)
			} else {
				if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), tc.next) {
					t.Errorf("Next = %v, want %q", err, tc.next)
				}
				r.Close()
			}
			w, err := Continue(path, Header{Weights: "abc"}, nil, func(*data.Episode) error { return nil })
			if tc.app == "" {
				if err != nil {
					t.Fatal(err)
				}
				w.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.app) {
				t.Errorf("Continue = %v, want %q", err, tc.app)
			}
			if got, _ := os.ReadFile(path); string(got) != tc.text {
				t.Errorf("Continue returned an error but changed the file to %q", got)
			}
		})
	}
	w, err := Create(filepath.Join(t.TempDir(), "d"), Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Write(&data.Episode{Reward: math.NaN()}); err == nil {
		t.Error("NaN was written")
	}
}

func TestWriteDump(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "step_1.jsonl")
	for n := 1; n <= 2; n++ { // the second dump replaces the first
		if err := WriteFile(path, Header{}, []*data.Episode{dumpEpisode(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, Header{}, []*data.Episode{dumpEpisode(3), {Reward: math.NaN()}}); err == nil {
		t.Error("NaN was written")
	}
	_, got := readDump(t, path)
	if d := cmp.Diff([]*data.Episode{dumpEpisode(2)}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files %v, want only the dump", left)
	}
}

func TestDumpManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	w, err := Create(path, Header{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			for i := range 20 {
				errs[g] = errors.Join(errs[g], w.Write(testEpisode(100*g+i)))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		t.Fatal(err)
	}
	_, got := readDump(t, path)
	seen := map[string]bool{}
	for _, e := range got {
		seen[fmt.Sprint(e.Sample)] = true
	}
	if len(got) != 160 || len(seen) != 160 {
		t.Errorf("%d episodes, %d different, want 160", len(got), len(seen))
	}
}

func TestContextsAreDumped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	want := contextEpisode(2)
	want.Messages, want.Exchanges, want.Task = []data.Message{}, []data.Exchange{}, data.Task{ID: "maze_1", Env: "maze", Index: 1}
	if err := WriteFile(path, Header{}, []*data.Episode{want}); err != nil {
		t.Fatal(err)
	}
	_, got := readDump(t, path)
	if d := cmp.Diff([]*data.Episode{want}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// testEpisode returns a valid episode of two turns; n makes episodes distinct.
func testEpisode(n int) *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: "maze_" + strconv.Itoa(n), Env: "maze", Index: n}, UID: "u" + strconv.Itoa(n), Sample: n, Seed: 7,
		Tokens: []int32{1, 2, 3, 4, 5, int32(n)}, Mask: []uint8{0, 1, 1, 0, 1, 0},
		LogProbs: []float32{0, -1, -2, 0, -3, 0}, Reward: float64(n), Outcome: data.Done, WeightVersion: 3,
		Turns: []data.Turn{{Start: 1, End: 3, Text: "a"}, {Start: 4, End: 5, Text: "b"}},
	}
}

// contextEpisode returns an episode of three contexts with 2, 1 and 0 turns.
// Each prompt has two tokens.
func contextEpisode(sample int) *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: "maze_1", Env: "maze", Index: 1}, UID: "u", Sample: sample, Reward: 1, Outcome: data.Success,
		Tokens:   []int32{10, 11, 12, 13, 14, 20, 21, 22, 23, 30, 31},
		Mask:     []uint8{0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0},
		LogProbs: []float32{0, 0, -1, 0, -2, 0, 0, -3, -4, 0, 0},
		Contexts: []int{0, 5, 9},
		Turns:    []data.Turn{{Start: 2, End: 3, Text: "a"}, {Start: 4, End: 5, Text: "b"}, {Start: 7, End: 9, Text: "c", Prompt: []data.Message{{Role: "user", Content: "x"}}}},
	}
}

// TestDumpOfAnEarlierVersion checks that lines of testdata/before.jsonl, which an earlier version wrote, keep their keys
// and values if they are read and written.
func TestDumpOfAnEarlierVersion(t *testing.T) {
	text, err := os.ReadFile("testdata/before.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, episodes := readDump(t, "testdata/before.jsonl")
	path := filepath.Join(t.TempDir(), "now.jsonl")
	if err := WriteFile(path, Header{Weights: "abc", Options: map[string]any{"env": "maze", "seed": uint64(math.MaxUint64)}}, episodes); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text []byte) (out []map[string]any) {
		for line := range bytes.Lines(text) {
			var m map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	}
	if d := cmp.Diff(lines(text), lines(now)); d != "" || len(episodes) != 2 {
		t.Errorf("%d episodes (-before +now):\n%s", len(episodes), d)
	}
}
