package dump

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/data"
)

func testHeader() Header {
	return Header{Weights: "abc", Options: map[string]any{"env": "maze", "seed": uint64(1<<63 + 1)}}
}

// continued calls Continue and returns the samples of the episodes that it visits.
func continued(path string) (*Writer, []int, error) {
	var kept []int
	w, err := Continue(path, testHeader(), nil, func(e *data.Episode) error {
		kept = append(kept, e.Sample)
		return nil
	})
	return w, kept, err
}

func samplesOf(episodes []*data.Episode) []int {
	var out []int
	for _, e := range episodes {
		out = append(out, e.Sample)
	}
	return out
}

// plainEpisode returns an episode without a wave.
func plainEpisode(n int) *data.Episode {
	e := dumpEpisode(n)
	e.Wave, e.WaveSize = 0, 0
	return e
}

// TestContinueCompressedAnywhere cuts a compressed dump at every byte and checks that Continue keeps the episodes of
// complete frames and leaves a valid file.
func TestContinueCompressedAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl.zst")
	w, err := Create(whole, testHeader())
	if err != nil {
		t.Fatal(err)
	}
	ends := []int64{0, w.end}
	for i := range 2 {
		if err := w.Write(plainEpisode(i)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w.end)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(text, zstdMagic) || int64(len(text)) != ends[3] {
		t.Fatalf("%d bytes, want a compressed file of %d", len(text), ends[3])
	}
	path := filepath.Join(dir, "cut.jsonl.zst")
	for cut := range len(text) + 1 {
		frames := 0
		for frames < 3 && int64(cut) >= ends[frames+1] {
			frames++
		}
		if frames > 0 && int64(cut) > ends[frames]+20 && cut%29 != 0 { // skip most cuts: each one syncs the disk
			continue
		}
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		w, kept, err := continued(path)
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if want := max(frames-1, 0); len(kept) != want {
			t.Fatalf("cut %d: Continue visited %d episodes, want %d", cut, len(kept), want)
		}
		if err := errors.Join(w.Write(plainEpisode(9)), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, got := readDump(t, path)
		if want := append(kept, 9); !r.Compressed() || r.Torn() || !slices.Equal(samplesOf(got), want) {
			t.Fatalf("cut %d: compressed %v, torn %v, samples %v, want %v", cut, r.Compressed(), r.Torn(), samplesOf(got), want)
		}
	}
}

// TestContinueIncompleteWave checks that Continue removes the episodes of an incomplete wave, because their batches
// depended on all episodes of the wave.
func TestContinueIncompleteWave(t *testing.T) {
	for _, name := range []string{"d.jsonl", "d.jsonl.zst"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := Create(path, testHeader())
			if err != nil {
				t.Fatal(err)
			}
			inWave := func(n int) *data.Episode {
				e := dumpEpisode(n)
				e.Wave, e.WaveSize = n/2+1, 2
				return e
			}
			if err := errors.Join(w.Write(inWave(0), inWave(1)), w.Write(inWave(2)), w.Close()); err != nil {
				t.Fatal(err)
			}
			w, kept, err := continued(path)
			if err != nil || !slices.Equal(kept, []int{0, 1}) {
				t.Fatalf("samples %v, error %v; want the first wave", kept, err)
			}
			if err := errors.Join(w.Write(inWave(2), inWave(3)), w.Close()); err != nil {
				t.Fatal(err)
			}
			if _, got := readDump(t, path); !slices.Equal(samplesOf(got), []int{0, 1, 2, 3}) {
				t.Errorf("samples %v", samplesOf(got))
			}
		})
	}
}

func TestContinueNamesDifferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	w, err := Create(path, testHeader())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w, _, err := continued(path); err != nil {
		t.Errorf("the same header: %v", err)
	} else if err := w.Close(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Header){
		`weights: "abc" then, "abd" now`: func(h *Header) { h.Weights = "abd" },
		// Both numbers have the same nearest float64.
		"seed: 9223372036854775809 then, 9223372036854775808 now": func(h *Header) { h.Options["seed"] = uint64(1 << 63) },
		`env: "maze" then, nothing now`:                           func(h *Header) { delete(h.Options, "env") },
		"new: nothing then, [1] now":                              func(h *Header) { h.Options["new"] = []int{1} },
	} {
		h := testHeader()
		change(&h)
		if _, err := Continue(path, h, nil, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), " then, ") != 1 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestContinueSingleFrame checks that Continue appends frames to a dump that consists of one compressed frame.
func TestContinueSingleFrame(t *testing.T) {
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "plain"), filepath.Join(dir, "packed")
	if err := WriteFile(plain, testHeader(), []*data.Episode{plainEpisode(0), plainEpisode(1)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packed, zstdFrames(t, string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	w, kept, err := continued(packed)
	if err != nil || len(kept) != 2 {
		t.Fatalf("%v, %v", kept, err)
	}
	if err := errors.Join(w.Write(plainEpisode(2)), w.Close()); err != nil {
		t.Fatal(err)
	}
	if r, got := readDump(t, packed); !r.Compressed() || !slices.Equal(samplesOf(got), []int{0, 1, 2}) {
		t.Errorf("compressed %v, samples %v", r.Compressed(), samplesOf(got))
	}
	// An incomplete last line inside a complete frame is removed like any other.
	if err := os.WriteFile(packed, zstdFrames(t, string(text[:len(text)-5])), 0o600); err != nil {
		t.Fatal(err)
	}
	w, kept, err = continued(packed)
	if err := errors.Join(err, w.Write(plainEpisode(3)), w.Close()); err != nil || !slices.Equal(kept, []int{0}) {
		t.Fatalf("continued with %v, %v", kept, err)
	}
	if r, got := readDump(t, packed); !r.Compressed() || r.Torn() || !slices.Equal(samplesOf(got), []int{0, 3}) {
		t.Errorf("compressed %v, torn %v, samples %v", r.Compressed(), r.Torn(), samplesOf(got))
	}
}

// TestOneWriterAtATime checks that a dump accepts one writing process, since the lines of two processes would mix.
func TestOneWriterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	w, err := Create(path, testHeader())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := continued(path); err == nil || !strings.Contains(err.Error(), "another process is writing") {
		t.Errorf("a second writer: error %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, _, err = continued(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// fullDisk is a file on a disk with room for a number of bytes. A write that exceeds the room is partial and fails.
type fullDisk struct {
	*os.File
	room int
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n, err := f.File.Write(p[:f.room])
		return n, errors.Join(err, syscall.ENOSPC)
	}
	f.room -= len(p)
	return f.File.Write(p)
}

// TestDumpOnAFullDisk checks that earlier episodes can be read, that nothing is written after a partial line, and
// that the dump can be continued once there is space.
func TestDumpOnAFullDisk(t *testing.T) {
	for _, name := range []string{"d.jsonl", "d.jsonl.zst"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := Create(path, testHeader())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(plainEpisode(0)); err != nil {
				t.Fatal(err)
			}
			disk := &fullDisk{File: w.f.(*os.File), room: 40}
			w.f = disk
			for i := 1; i < 3; i++ {
				if err := w.Write(plainEpisode(i)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "write dump") {
					t.Errorf("write %d: %v", i, err)
				}
				disk.room = 1 << 20 // the next write fits, but it would follow a partial line
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if r, got := readDump(t, path); r.Torn() || fmt.Sprint(samplesOf(got)) != "[0]" {
				t.Errorf("torn %v, samples %v", r.Torn(), samplesOf(got))
			}
			w, kept, err := continued(path)
			if err != nil || fmt.Sprint(kept) != "[0]" {
				t.Fatalf("%v, %v", kept, err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
