package track

import (
	"path"
	"testing"
)

// defined reports whether Table has a metric.
func defined(name string) bool {
	for _, d := range Table {
		for _, pattern := range Expand(d.Names) {
			if match(pattern, name) {
				return true
			}
		}
	}
	return false
}

func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table {
		for _, name := range Expand(d.Names) {
			if seen[name] || d.Meaning == "" {
				t.Errorf("%s is defined twice or without a meaning", name)
			}
			seen[name] = true
		}
	}
	for name, want := range map[string]bool{
		"critic/score/mean": true, "timing_s/gen": true, "val/maze/success_rate": true, "rollout/logprob_gap_k3": true, "actor/lr": true, "perf/rss_bytes": true,
		"response_length/clip_ratio": true, "critic/score": false, "critic/score/median": false, "unknown": false,
	} {
		if got := defined(name); got != want {
			t.Errorf("defined(%s) = %v, want %v", name, got, want)
		}
	}
}
