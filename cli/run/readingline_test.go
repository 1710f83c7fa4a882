package run

import (
	"math"
	"testing"

	"github.com/openmanus/openmanus/algo"
)

func TestReadingLine(t *testing.T) {
	var l readingLine
	l.add(algo.Metrics{"sft/step": 1, "sft/epoch": 0, "train/lr": .1, "train/tokens": 10, "train/loss": 3, "train/grad_norm": 1,
		"train/skipped_steps": 0, "timing_s/sft": 1, "perf/sft_tokens_per_s": 20})
	l.add(algo.Metrics{"sft/step": 2, "sft/epoch": 0, "train/lr": .2, "train/tokens": 30, "train/loss": 1, "train/grad_norm": 2,
		"train/skipped_steps": 0, "timing_s/sft": 3, "perf/sft_tokens_per_s": 40})
	l.add(algo.Metrics{"sft/step": 3, "sft/epoch": 1, "train/lr": .3, "train/tokens": 5, "train/skipped_steps": 1, "timing_s/sft": 1, "perf/sft_tokens_per_s": 10})
	want := algo.Metrics{"read/step": 3, "read/epoch": 1, "read/lr": .3, "read/tokens": 45, "read/skipped_steps": 1, "read/loss": 1.5, "read/grad_norm": 1.5,
		"timing_s/read": 5, "perf/read_tokens_per_s": 30}
	got := l.metrics()
	for name, x := range want {
		if math.Abs(got[name]-x) > 1e-12 {
			t.Errorf("%s is %g, want %g", name, got[name], x)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}
