package cli

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/track"
)

// A model that reads for many steps leaves few lines, over an axis of their own,
// and no token that it read is missing from them.
func TestReadingLeavesFewLines(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	const walks = 240
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "model.fresh.walks=240", "--set", "model.fresh.walk_batch_size=1",
		"--set", "trainer.total_steps=1", "--set", "sft.epochs=1")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	lines, last, batches := 0, 0.0, 0.0
	err := track.Read(filepath.Join(dir, "runs", "tiny", "metrics.jsonl"), func(step int, m track.Metrics) error {
		at, ok := m["read/step"]
		if !ok {
			return nil
		}
		lines++
		batches += m["timing_s/read"] * m["perf/read_tokens_per_s"]
		if step != 0 || at <= last || !(m["read/loss"] > 0) || !(m["read/tokens"] > 0) {
			t.Errorf("step %d, after step %g of reading: %v", step, last, m)
		}
		last = at
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != walks || lines != 48 {
		t.Errorf("%d lines come to step %g of %d", lines, last, walks)
	}
	if batches < 50*walks {
		t.Errorf("%g tokens in %d walks", batches, walks)
	}
}

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
