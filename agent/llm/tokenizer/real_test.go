package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// realNames are the tokenizers of published models that the goldens cover.
var realNames = []string{"llama3_2", "qwen2_5", "qwen3"}

// testdataDir returns the folder of the files that build.sh fetches for tests.
func testdataDir() string {
	if dir := os.Getenv("OPENMANUS_TESTDATA"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "build", "testdata")
}

var loadReal = func() func(t testing.TB, name string) *Tokenizer {
	var mu sync.Mutex
	loaded := map[string]*Tokenizer{}
	return func(t testing.TB, name string) *Tokenizer {
		t.Helper()
		if testing.Short() {
			t.Skip("needs a fetched tokenizer; not in short mode")
		}
		mu.Lock()
		defer mu.Unlock()
		if tok := loaded[name]; tok != nil {
			return tok
		}
		tok, err := Load(filepath.Join(testdataDir(), "tokenizers", name))
		if err != nil {
			t.Fatalf("%v\nrun ./build.sh test, which fetches the tokenizers, or set OPENMANUS_TESTDATA", err)
		}
		loaded[name] = tok
		return tok
	}
}()

type goldenCase struct {
	Name    string
	Text    string
	Hex     string
	IDs     []int32
	Special []int32
	Split   []int32
}

type goldens struct {
	Cases   []goldenCase
	Decodes []struct {
		IDs  []int32
		Text string
		Skip string
	}
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// checkCases compares the ids of every case's text with the golden ids.
func (g *goldens) checkCases(t *testing.T, tok *Tokenizer) {
	t.Helper()
	for _, c := range g.Cases {
		t.Run(c.Name, func(t *testing.T) {
			text := c.Text
			if c.Hex != "" {
				raw, err := hex.DecodeString(c.Hex)
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			special, split := c.Special, c.Split
			if special == nil {
				special = c.IDs
			}
			if split == nil {
				split = c.IDs
			}
			sameIDs(t, "plain", c.IDs, tok.Encode(text, Options{}))
			sameIDs(t, "add special", special, tok.Encode(text, Options{AddSpecial: true}))
			sameIDs(t, "split special", split, tok.Encode(text, Options{SplitSpecial: true}))
		})
	}
}

// checkGoldens compares the results of tok with the goldens of the published tokenizer name.
func checkGoldens(t *testing.T, tok *Tokenizer, name string) {
	var g goldens
	readJSON(t, name+".json", &g)
	g.checkCases(t, tok)
	t.Run("random", func(t *testing.T) {
		var r struct {
			Texts []string
			IDs   map[string][]string
		}
		readJSON(t, "random.json", &r)
		if len(r.IDs[name]) != len(r.Texts) {
			t.Fatalf("random.json has %d digests for %d texts", len(r.IDs[name]), len(r.Texts))
		}
		for i, text := range r.Texts {
			if got := digest(tok.Encode(text, Options{})); got != r.IDs[name][i] {
				t.Errorf("text %d %q: the ids differ from the reference's", i, text)
			}
		}
	})
	t.Run("decode", func(t *testing.T) {
		for _, d := range g.Decodes {
			if diff := cmp.Diff(d.Text, tok.Decode(d.IDs, false)); diff != "" {
				t.Errorf("Decode(%v) (-want +got):\n%s", d.IDs, diff)
			}
			if diff := cmp.Diff(d.Skip, tok.Decode(d.IDs, true)); diff != "" {
				t.Errorf("Decode(%v) without special tokens (-want +got):\n%s", d.IDs, diff)
			}
			if got := stream(tok, d.IDs); got != d.Text {
				t.Errorf("streamed %v: got %q, want %q", d.IDs, got, d.Text)
			}
		}
	})
}

func stream(tok *Tokenizer, ids []int32) string {
	var sb strings.Builder
	s := tok.Stream(false)
	for _, id := range ids {
		sb.WriteString(s.Next(id))
	}
	sb.WriteString(s.Flush())
	return sb.String()
}

func sameIDs(t *testing.T, what string, want, got []int32) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func digest(ids []int32) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(int(id))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ",")))
	return hex.EncodeToString(sum[:])[:16]
}

func TestReal(t *testing.T) {
	for _, name := range realNames {
		t.Run(name, func(t *testing.T) { checkGoldens(t, loadReal(t, name), name) })
	}
}

func BenchmarkEncode(b *testing.B) {
	var g goldens
	readJSON(b, "qwen3.json", &g)
	var sb strings.Builder
	for _, c := range g.Cases {
		if !strings.HasPrefix(c.Name, "long") {
			sb.WriteString(c.Text)
		}
	}
	prose := strings.Repeat("You are in a maze. The goal is at position 8, 6. Your current position is at 5, 3. "+
		"There are walls to your left, right.\n\nThought: I should go up.\nAction: move up\n", 200)
	for _, name := range realNames {
		for kind, text := range map[string]string{"prose": prose, "hostile": strings.Repeat(sb.String(), 5)} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				tok := loadReal(b, name)
				tokens := 0
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					tokens += len(tok.Encode(text, Options{}))
				}
				b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
