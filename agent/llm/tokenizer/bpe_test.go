package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func trained(t testing.TB) *Tokenizer {
	t.Helper()
	texts := []string{strings.Repeat("the maze has walls to the left and the right of the mazes. Action: move up\n", 3), "你好 你好 é"}
	tok, err := TrainBPE(texts, 330, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestMerge checks that the heap and a plain scan give the same ids for words of all lengths.
func TestMerge(t *testing.T) {
	m := &trained(t).bpe
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		word := make([]int32, 1+i%60)
		for j := range word {
			word[j] = m.bytes["themazwlsof "[rng.IntN(12)]]
		}
		want := scanMerge(m, slices.Clone(word))
		if got := m.merge(slices.Clone(word), 0); !slices.Equal(got, want) {
			t.Fatalf("%v: merge returned %v, want %v", word, got, want)
		}
	}
}

// scanMerge merges the pair of lowest rank, the leftmost of equal pairs, until
// no pair has a merge.
func scanMerge(m *bpe, w []int32) []int32 {
	for {
		best, lowest := -1, merge{}
		for i := 0; i+1 < len(w); i++ {
			if g, ok := m.merges[pair(w[i], w[i+1])]; ok && (best < 0 || g.rank < lowest.rank) {
				best, lowest = i, g
			}
		}
		if best < 0 {
			return w
		}
		w[best] = lowest.id
		w = slices.Delete(w, best+1, best+2)
	}
}

// TestHugeWords checks that long words are merged correctly. A merge that takes quadratic time would exceed the time limit of the tests.
func TestHugeWords(t *testing.T) {
	tok := trained(t)
	for _, s := range []string{strings.Repeat("themaze", 20_000), strings.Repeat(" ", 150_000), strings.Repeat("<|im_", 20_000), strings.Repeat("é\u0301", 20_000)} {
		if got := tok.Decode(tok.Encode(s, Options{}), false); got != s {
			t.Errorf("%.10q...: Decode of Encode gives another text", s)
		}
	}
}

func TestConcurrent(t *testing.T) {
	tok := trained(t)
	want := tok.Encode("the walls of the maze", Options{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				tok.Encode(fmt.Sprintf("word%d of %d", i, g), Options{})
				if !slices.Equal(want, tok.Encode("the walls of the maze", Options{})) {
					t.Error("ids changed")
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestCacheIsBounded checks that append empties a full cache of words.
func TestCacheIsBounded(t *testing.T) {
	tok := trained(t)
	tok.bpe.cache = map[string][]int32{}
	for i := range cacheWords {
		tok.bpe.cache[strconv.Itoa(i)] = nil
	}
	tok.bpe.append(nil, "word")
	if n := len(tok.bpe.cache); n != 1 {
		t.Errorf("%d words in the cache, want 1", n)
	}
}

func TestTrainBPE(t *testing.T) {
	tok, second := trained(t), trained(t)
	if !bytes.Equal(tok.RawJSON(), second.RawJSON()) {
		t.Error("two trainings on the same texts give different tokenizers")
	}
	if tok.Size() > 330 || tok.Size() < 300 {
		t.Errorf("size %d, want 300 to 330", tok.Size())
	}
	if id, ok := tok.TokenToID("<|im_end|>"); !ok || id != 1 || !tok.special[1] {
		t.Errorf("<|im_end|>: got id %d, %v; want the special token 1", id, ok)
	}
	if n := len(tok.Encode(" the", Options{})); n != 1 {
		t.Errorf("the most frequent word has %d tokens, want 1", n)
	}
	loaded, err := Parse(tok.RawJSON())
	if err != nil {
		t.Fatal(err)
	}
	text := "Action: move up<|im_end|>\nfree text 123"
	sameIDs(t, "after a round trip", tok.Encode(text, Options{}), loaded.Encode(text, Options{}))
	for _, size := range []int{257, 1 << 20} {
		if _, err := TrainBPE(nil, size, []string{"<s>", "</s>"}); err == nil {
			t.Errorf("vocabulary of %d: no error", size)
		}
	}
	for _, specials := range [][]string{{""}, {"<s>", "<s>"}, {"a"}} {
		if _, err := TrainBPE(nil, 300, specials); err == nil {
			t.Errorf("special tokens %q: no error", specials)
		}
	}
	small, err := TrainBPE(nil, 300, nil)
	if err != nil || small.Size() != 256 {
		t.Errorf("training without texts: size %d, error %v; want 256 tokens", small.Size(), err)
	}
}

func TestStream(t *testing.T) {
	tok := trained(t)
	s := tok.Stream(false)
	var pieces []string
	for _, b := range []byte("aé😀\xffb\xe4") {
		pieces = append(pieces, s.Next(tok.bpe.bytes[b]))
	}
	pieces = append(pieces, s.Flush(), s.Flush())
	want := []string{"a", "", "é", "", "", "", "😀", "\uFFFD", "b", "", "\uFFFD", ""}
	if !slices.Equal(pieces, want) {
		t.Errorf("got %q, want %q", pieces, want)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "the maze <|im_end|> 12", "é\u0301 你好 😀\u200d", "\xff\xe4\xbd x", "'ſ 'll  \n\n \t", strings.Repeat("a", 200)} {
		f.Add(s)
	}
	tok := trained(f)
	f.Fuzz(func(t *testing.T, s string) {
		want := lossy([]byte(s))
		if utf8.ValidString(s) && want != s || !utf8.ValidString(want) {
			t.Fatalf("lossy(%q) = %q", s, want)
		}
		for _, o := range []Options{{}, {SplitSpecial: true}, {AddSpecial: true}} {
			ids := tok.Encode(s, o)
			if got := tok.Decode(ids, false); got != want {
				t.Errorf("%+v: text %q is decoded as %q", o, want, got)
			}
			if got := stream(tok, ids); got != want {
				t.Errorf("%+v: text %q is streamed as %q", o, want, got)
			}
		}
		if once := nfc(want); nfc(once) != once || slowNFC(want) != slowNFC(once) {
			t.Errorf("NFC of %q changes when it is applied twice", want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(join(tiny()))
	f.Add(trained(f).RawJSON())
	f.Add([]byte(`{"model":{"vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?!"}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tok, err := Parse(data); err == nil {
			tok.Decode(tok.Encode("some text, 12 <s>", Options{AddSpecial: true}), true)
		}
	})
}
