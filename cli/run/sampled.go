package run

import "fmt"

// SampledNote is the note of a display about n sampled tokens; "" for 0.
func SampledNote(n int) string {
	if n == 0 {
		return ""
	}
	return shortCount(n) + " tok"
}

// shortCount formats a count in at most five columns: 999, 9.9k, 123k, 4.5M.
func shortCount(n int) string {
	x, unit := float64(n), ""
	for _, next := range []string{"k", "M", "G"} {
		if x < 1000 {
			break
		}
		x, unit = x/1000, next
	}
	if unit != "" && x < 10 {
		return fmt.Sprintf("%.1f%s", x, unit)
	}
	return fmt.Sprintf("%.0f%s", x, unit)
}
