package advantage

// The similarity of two observations is the length of their longest common
// subsequence of characters divided by their mean length:
//
//	similarity(a, b) = 2 LCS(a, b) / (|a| + |b|)
//
// It is at least a threshold θ if at most (1-θ)(|a| + |b|) deletions and insertions of
// characters turn a into b. Myers' algorithm ("An O(ND) difference algorithm and
// its variations", Algorithmica 1, 1986) decides this with time and memory that
// depend on the number of edits. At most maxEdits edits are tried, so the
// threshold for very long texts is higher than θ.
//
// Source: the similarity grouping of verl-agent, GiGPO's repository.
//
// Differs from verl-agent in: verl-agent uses the ratio of Python's difflib, which
// is at most this similarity, depends on the order of the two texts and ignores
// frequent characters in texts of 200 characters or more.

// maxEdits bounds the work of one comparison.
const maxEdits = 1024

// similar reports whether the similarity of a and b is at least threshold.
func similar(a, b []rune, threshold float64) bool {
	const rounding = 1e-9
	return withinEdits(a, b, min(int((1-threshold)*float64(len(a)+len(b))+rounding), maxEdits))
}

// withinEdits reports whether a can be turned into b with at most the given number of
// deletions and insertions.
func withinEdits(a, b []rune, most int) bool {
	if d := len(a) - len(b); d > most || -d > most {
		return false
	}
	reach := make([]int, 2*most+3) // furthest position in a that is reached on each diagonal
	at := most + 1                 // index of diagonal 0 in reach
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
