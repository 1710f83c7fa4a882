package configs

import (
	"slices"
	"strings"
)

// Nearest returns the candidate with the smallest edit distance to word, or ""
// where none is near enough to be what was meant.
func Nearest(word string, candidates []string) string {
	if len(word) > 64 { // no key is as long: do not spend the square of it
		return ""
	}
	best, bestDist := "", max(len(word)/3, 1)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// suggestKey returns the known key that an unknown one most likely meant: the
// same last name in another section, or a name a few letters away, which may
// be that of a section.
func suggestKey(key string) string {
	var names []string
	for _, e := range table {
		if e.status == Ready {
			names = append(names, e.name)
		}
	}
	if n := Nearest(key, names); n != "" {
		return n
	}
	leaf := key[strings.LastIndexByte(key, '.')+1:]
	for _, n := range names {
		if n[strings.LastIndexByte(n, '.')+1:] == leaf {
			return n
		}
	}
	if n := Nearest(key, sectionNames()); n != "" && !strings.HasPrefix(key, n+".") {
		return "[" + n + "]"
	}
	return ""
}

// sectionNames are the sections whose keys are there, in the order of the
// table.
func sectionNames() []string {
	var names []string
	for _, e := range table {
		for at := sectionOf(e.name); e.status == Ready; at = sectionOf(at) {
			if !slices.Contains(names, at) {
				names = append(names, at)
			}
			if !strings.Contains(at, ".") {
				break
			}
		}
	}
	return names
}

// distance is the number of letters to insert, delete, replace or swap with
// the next one to turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}
