package eval

import (
	"fmt"
	"strings"
)

// startsOf is the digest of what the tasks began with, as far as that is known.
func startsOf(tasks []Task) string {
	var b strings.Builder
	for _, t := range tasks {
		if t.Start != "" {
			fmt.Fprintf(&b, "%q %s\n", t.ID, t.Start)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return Digest([]byte(b.String()))
}

// maxNamed bounds how many tasks a message names.
const maxNamed = 5

// startsDiffer compares how the tasks of two lists began, pair by pair. other
// names the tasks that differ; unknown counts those of which one side is not
// known.
func startsDiffer(a, b []Task) (other []string, unknown int) {
	for i := range a {
		switch {
		case a[i].Start == "" || b[i].Start == "":
			unknown++
		case a[i].Start != b[i].Start:
			other = append(other, a[i].ID)
		}
	}
	return other, unknown
}

// startsDifference tells that tasks of two results are not the same though they
// have the same ids.
func startsDifference(a, b Result, tasks int, other []string) Difference {
	names := strings.Join(other[:min(len(other), maxNamed)], ", ")
	if len(other) > maxNamed {
		names += ", …"
	}
	return Difference{
		Part: fmt.Sprintf("starts: %d of %d tasks begin with another first observation (%s), so their servers play other tasks", len(other), tasks, names),
		A:    a.Starts, B: b.Starts,
	}
}
