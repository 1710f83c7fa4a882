package tokenizer

import (
	"fmt"
	"maps"
	"slices"
)

// trainLimit bounds the vocabulary of TrainBPE, which is slow for large
// vocabularies: TrainBPE counts all pairs again for every merge.
const trainLimit = 1 << 14

// TrainBPE trains a byte-level BPE vocabulary (Sennrich et al. 2016, "Neural
// Machine Translation of Rare Words with Subword Units", algorithm 1) of at
// most vocabSize tokens: the specials, the 256 bytes, then merges by falling
// count. Of equally frequent pairs, the one with smaller ids is merged first. The
// training stops early when no pair occurs twice. Texts are split with GPT-2's
// pattern, so a number can become one token. Equal inputs give equal tokenizers.
func TrainBPE(texts []string, vocabSize int, specials []string) (*Tokenizer, error) {
	t, err := trainBPE(texts, vocabSize, specials)
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	return t, nil
}

func trainBPE(texts []string, vocabSize int, specials []string) (*Tokenizer, error) {
	if least := len(specials) + 256; vocabSize < least || vocabSize > trainLimit {
		return nil, fmt.Errorf("vocabulary size %d is outside %d (256 bytes and %d special tokens) to %d",
			vocabSize, least, len(specials), trainLimit)
	}
	v := &Vocabulary{BOS: -1, Merges: [][2]string{}, Scheme: GPT2}
	for i, s := range specials {
		v.Tokens = append(v.Tokens, s)
		v.Added = append(v.Added, AddedToken{ID: int32(i), Content: s, Special: true})
	}
	for b := range 256 {
		v.Tokens = append(v.Tokens, string(byteRune[b]))
	}
	base, err := v.Build()
	if err != nil {
		return nil, err
	}
	words := countWords(base, texts)
	taken := make(map[string]bool, vocabSize)
	for _, token := range v.Tokens {
		taken[token] = true
	}
	for len(v.Tokens) < vocabSize {
		a, b, ok := bestPair(words, taken, v.Tokens)
		if !ok {
			break
		}
		id := int32(len(v.Tokens))
		merged := v.Tokens[a] + v.Tokens[b]
		v.Tokens = append(v.Tokens, merged)
		taken[merged] = true
		v.Merges = append(v.Merges, [2]string{v.Tokens[a], v.Tokens[b]})
		for i := range words {
			words[i].apply(a, b, id)
		}
	}
	return v.Build()
}

// wordCount is a pre-token and its count. ids is the pre-token after the merges so far.
type wordCount struct {
	ids   []int32
	count int
}

func countWords(t *Tokenizer, texts []string) []wordCount {
	counts := map[string]int{}
	count := func(w string) { counts[w]++ }
	for _, text := range texts {
		t.verbatim.split(lossy([]byte(text)), false, func(s string) { t.pre.each(s, count) }, func(int32) {})
	}
	keys := slices.Sorted(maps.Keys(counts))
	words := make([]wordCount, len(keys))
	for i, w := range keys {
		words[i].count = counts[w]
		for j := range len(w) {
			words[i].ids = append(words[i].ids, t.bpe.bytes[w[j]])
		}
	}
	return words
}

// bestPair returns the most frequent pair that occurs at least twice and makes a
// new token.
func bestPair(words []wordCount, taken map[string]bool, tokens []string) (a, b int32, ok bool) {
	counts := map[uint64]int{}
	for _, w := range words {
		for i := 1; i < len(w.ids); i++ {
			counts[pair(w.ids[i-1], w.ids[i])] += w.count
		}
	}
	best, bestCount := uint64(0), 1
	for p, n := range counts {
		if n < bestCount || n == bestCount && (bestCount == 1 || p > best) {
			continue
		}
		if taken[tokens[p>>32]+tokens[uint32(p)]] {
			continue
		}
		best, bestCount = p, n
	}
	return int32(best >> 32), int32(uint32(best)), bestCount > 1
}

func (w *wordCount) apply(a, b, id int32) {
	for i := 0; i+1 < len(w.ids); i++ {
		if w.ids[i] == a && w.ids[i+1] == b {
			w.ids[i] = id
			w.ids = slices.Delete(w.ids, i+1, i+2)
		}
	}
}
