package advantage

// How alike two observations are: the length of their longest common
// subsequence of characters, as a share of their mean length,
//
//	similarity(a, b) = 2 LCS(a, b) / (|a| + |b|)
//
// which is at least θ where deleting and inserting at most (1-θ)(|a| + |b|)
// characters turns a into b. That is decided in time and memory that depend on the
// number of edits (Myers, "An O(ND) difference algorithm and its variations",
// Algorithmica 1, 1986), of which there may be maxEdits: longer texts have to be
// more alike than θ asks for.
//
// Source: the similarity grouping of verl-agent, GiGPO's repository. Differs from
// it in: it takes Python's difflib ratio, which is at most this one, depends on the
// order of the two and leaves frequent characters out of texts of 200 and more.

// maxEdits bounds the work of one comparison.
const maxEdits = 1024

// similar reports whether the similarity of a and b is at least threshold.
func similar(a, b []rune, threshold float64) bool {
	const rounding = 1e-9
	return withinEdits(a, b, min(int((1-threshold)*float64(len(a)+len(b))+rounding), maxEdits))
}

// withinEdits reports whether at most so many deletions and insertions turn a into b.
func withinEdits(a, b []rune, most int) bool {
	if d := len(a) - len(b); d > most || -d > most {
		return false
	}
	reach := make([]int, 2*most+3) // the furthest place in a on each diagonal
	at := most + 1                 // of diagonal 0
	for edits := 0; edits <= most; edits++ {
		for k := -edits; k <= edits; k += 2 {
			x := reach[at+k-1] + 1
			if k == -edits || k != edits && reach[at+k-1] < reach[at+k+1] {
				x = reach[at+k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			if x >= len(a) && x-k >= len(b) {
				return true
			}
			reach[at+k] = x
		}
	}
	return false
}
