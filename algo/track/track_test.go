package track

import "testing"

func TestDescribe(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table {
		for _, name := range expand(d.Names) {
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
		if _, ok := Describe(name); ok != want {
			t.Errorf("Describe(%s) = %v, want %v", name, ok, want)
		}
	}
}
