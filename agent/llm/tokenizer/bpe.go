package tokenizer

import (
	"container/heap"
	"strings"
	"sync"
)

// bpe is the merge table of a byte-level BPE model. Words are raw bytes: the
// byte-level alphabet is undone once, when the vocabulary is read.
type bpe struct {
	words        map[string]int32 // ids by raw bytes; entries outside the byte-level alphabet are omitted
	bytes        [256]int32       // id of each single byte, -1 if the vocabulary lacks it
	merges       map[uint64]merge
	ignoreMerges bool  // a word in the vocabulary becomes its id without merges
	unk          int32 // id of bytes outside the vocabulary; -1 drops the bytes, as Hugging Face does
	fuseUnk      bool

	mu    sync.RWMutex
	cache map[string][]int32 // guarded by mu; emptied when it reaches cacheWords
}

type merge struct {
	rank int32
	id   int32
}

const (
	cacheWords   = 1 << 16
	cacheWordLen = 128 // longer words are rare and would fill memory
)

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// append appends the ids of one pre-token to ids.
func (m *bpe) append(ids []int32, word string) []int32 {
	cached := len(word) <= cacheWordLen
	if cached {
		m.mu.RLock()
		hit, ok := m.cache[word]
		m.mu.RUnlock()
		if ok {
			return append(ids, hit...)
		}
	}
	start := len(ids)
	ids = m.encode(ids, word)
	if cached {
		got := append([]int32(nil), ids[start:]...)
		m.mu.Lock()
		if m.cache == nil || len(m.cache) >= cacheWords {
			m.cache = make(map[string][]int32, 1024)
		}
		m.cache[strings.Clone(word)] = got // a slice would keep the caller's whole text in memory
		m.mu.Unlock()
	}
	return ids
}

func (m *bpe) encode(ids []int32, word string) []int32 {
	if m.ignoreMerges {
		if id, ok := m.words[word]; ok {
			return append(ids, id)
		}
	}
	start := len(ids)
	inUnk := false
	for i := range len(word) {
		id := m.bytes[word[i]]
		if id >= 0 {
			ids, inUnk = append(ids, id), false
			continue
		}
		if m.unk < 0 || inUnk && m.fuseUnk {
			continue
		}
		ids, inUnk = append(ids, m.unk), true
	}
	return m.merge(ids, start)
}

// merge merges ids[start:] in place. It repeatedly merges the pair of lowest
// rank, and the leftmost of equal pairs. A heap of candidates takes O(n log n),
// so a megabyte without a word break cannot hang the program.
func (m *bpe) merge(ids []int32, start int) []int32 {
	w := ids[start:]
	n := len(w)
	prev, next := make([]int32, n), make([]int32, n)
	for i := range n {
		prev[i], next[i] = int32(i-1), int32(i+1)
	}
	at := func(i int32) (candidate, bool) {
		j := next[i]
		if j >= int32(n) {
			return candidate{}, false
		}
		g, ok := m.merges[pair(w[i], w[j])]
		return candidate{g.rank, i, w[i], w[j], g.id}, ok
	}
	var q mergeHeap
	for i := range n {
		if c, ok := at(int32(i)); ok {
			q = append(q, c)
		}
	}
	heap.Init(&q)
	const gone = -1
	for len(q) > 0 {
		c := heap.Pop(&q).(candidate)
		j := next[c.at]
		if w[c.at] != c.left || j >= int32(n) || w[j] != c.right {
			continue // the pair has changed since the push
		}
		w[c.at], w[j] = c.id, gone
		next[c.at] = next[j]
		if k := next[j]; k < int32(n) {
			prev[k] = c.at
		}
		for _, i := range [2]int32{c.at, prev[c.at]} {
			if i < 0 {
				continue
			}
			if c, ok := at(i); ok {
				heap.Push(&q, c)
			}
		}
	}
	out := ids[:start]
	for i := int32(0); i < int32(n); i = next[i] {
		out = append(out, w[i])
	}
	return out
}

type candidate struct{ rank, at, left, right, id int32 }

type mergeHeap []candidate

func (h mergeHeap) Len() int { return len(h) }
func (h mergeHeap) Less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].at < h[j].at
}
func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mergeHeap) Push(x any)   { *h = append(*h, x.(candidate)) }
func (h *mergeHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
