package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// zstdFrames compresses each text into its own frame.
func zstdFrames(t testing.TB, texts ...string) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	var out []byte
	for _, text := range texts {
		out = enc.EncodeAll([]byte(text), out)
	}
	return out
}

func readLines(in io.Reader) (lines []string, torn bool, err error) {
	r, err := NewLineReader(in)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, r.Torn(), nil
		}
		if err != nil {
			return lines, r.Torn(), err
		}
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	cases := []struct {
		name  string
		bytes []byte
		want  []string
		torn  bool
	}{
		{"empty", nil, nil, false},
		{"plain", []byte("a\n\nb\n"), []string{"a", "", "b"}, false},
		{"torn", []byte("a\nb"), []string{"a"}, true},
		{"only torn", []byte("a"), nil, true},
		{"longer than the buffer", []byte(long + "\nb\n"), []string{long, "b"}, false},
		{"compressed", zstdFrames(t, "a\nb\n"), []string{"a", "b"}, false},
		{"compressed, many frames", zstdFrames(t, "a\n", "b\n", "c\n"), []string{"a", "b", "c"}, false},
		{"compressed, a line over frames", zstdFrames(t, "a\nb", "c\n"), []string{"a", "bc"}, false},
		{"compressed, torn text", zstdFrames(t, "a\nb"), []string{"a"}, true},
		{"begins like zstd, too short", zstdMagic[:3], nil, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, torn, err := readLines(bytes.NewReader(c.bytes))
			if err != nil || !slices.Equal(got, c.want) || torn != c.torn {
				t.Errorf("got %d lines %.40q, torn %v, error %v; want %d lines, torn %v", len(got), got, torn, err, len(c.want), c.torn)
			}
		})
	}
}

// TestLinesOfACutFile cuts compressed files at every byte and checks that the lines read are a prefix of the
// written lines, without the loss of a complete frame.
func TestLinesOfACutFile(t *testing.T) {
	want := []string{"first", "second " + strings.Repeat("ab", 300), "third"}
	frames := zstdFrames(t, want[0]+"\n", want[1]+"\n", want[2]+"\n")
	first := len(zstdFrames(t, want[0]+"\n"))
	second := first + len(zstdFrames(t, want[1]+"\n"))
	for cut := range frames {
		got, torn, err := readLines(bytes.NewReader(frames[:cut]))
		whole := 0
		if cut >= first {
			whole++
		}
		if cut >= second {
			whole++
		}
		atEnd := cut == 0 || cut == first || cut == second
		if err != nil || len(got) < whole || len(got) > 3 || !slices.Equal(got, want[:len(got)]) || torn == atEnd {
			t.Fatalf("cut at %d of %d: %d lines, torn %v, error %v", cut, len(frames), len(got), torn, err)
		}
	}
}

func TestLinesOfADamagedFile(t *testing.T) {
	b := zstdFrames(t, strings.Repeat("some text to compress ", 100)+"\n", "b\n")
	b[len(b)/2] ^= 0x55
	if got, _, err := readLines(bytes.NewReader(b)); err == nil {
		t.Errorf("a damaged file: %d lines and no error", len(got))
	}
	b = append(zstdFrames(t, "a\n"), "plain\n"...)
	if _, _, err := readLines(bytes.NewReader(b)); err == nil {
		t.Error("plain text after a compressed frame: no error")
	}
}

func TestCompressedDump(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "d.jsonl")
	writeDump(t, plain, 3)
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(dir, "any-name")
	if err := os.WriteFile(packed, zstdFrames(t, strings.SplitAfter(string(text), "\n")...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, want := readDump(t, plain)
	r, got := readDump(t, packed)
	if !r.Compressed() || r.Torn() || fmt.Sprint(r.Header()) == "" || len(got) != len(want) {
		t.Fatalf("compressed %v, torn %v, %d episodes, want %d", r.Compressed(), r.Torn(), len(got), len(want))
	}
	for i := range got {
		if got[i].Task.ID != want[i].Task.ID || !slices.Equal(got[i].Tokens, want[i].Tokens) {
			t.Errorf("episode %d differs", i)
		}
	}
}
