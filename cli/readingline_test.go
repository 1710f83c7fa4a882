package cli

import (
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/algo/track"
)

// TestReadingMetrics checks that the many steps of pretraining on random walks give few lines of metrics, that these
// lines have the step numbers of the pretraining, and that they count every token.
func TestReadingMetrics(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	const walks = 240
	code, _, stderr := inProcess(t, dir, "train", "run.toml", "--set", "model.fresh.walks=240", "--set", "model.fresh.walk_batch_size=1",
		"--set", "trainer.total_steps=1", "--set", "sft.epochs=1")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	lines, last, batches := 0, 0.0, 0.0
	err := track.Read(filepath.Join(dir, "runs", "tiny", "metrics.jsonl"), func(l track.Line) error {
		at, m := float64(l.Step), l.Metrics
		if l.Phase != track.PhaseRead {
			return nil
		}
		lines++
		batches += m["timing_s/read"] * m["perf/read_tokens_per_s"]
		if m["read/step"] != at || l.Time.IsZero() || at <= last || !(m["read/loss"] > 0) || !(m["read/tokens"] > 0) {
			t.Errorf("step %g, after step %g of training on walks: invalid metrics %v", at, last, m)
		}
		last = at
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != walks || lines != 48 {
		t.Errorf("got %d lines, the last with step %g, want 48 lines, the last with step %d", lines, last, walks)
	}
	if batches < 50*walks {
		t.Errorf("the lines count %g tokens of %d walks, want at least 50 tokens per walk", batches, walks)
	}
}
