package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// lossOfReading records the loss of every pretraining step.
type lossOfReading struct{ losses []float64 }

func (l *lossOfReading) Step(_, _ int, m algo.Metrics) { l.losses = append(l.losses, m["train/loss"]) }
func (l *lossOfReading) Phase(algo.Phase)              {}
func (l *lossOfReading) Progress(int, string)          {}
func (l *lossOfReading) Validated(rundir.Validation)   {}

// TestReading checks that a fresh model is pretrained on random walks, and that
// every second walk starts in the middle of an episode.
func TestReading(t *testing.T) {
	s := newTestHost(t)
	cfg, err := Schema.Load("run.toml", []byte(tinyRun), []string{"model.fresh.walks=80", "model.fresh.walk_turns=4", "model.fresh.walk_lr=0.01"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	tr, err := openTraining(ctx, &s.Host, cfg, &runFolder{Folder: &rundir.Folder{Dir: t.TempDir()}}, reinforced)
	defer func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.openSampler(ctx); err != nil {
		t.Fatal(err)
	}
	for i, w := range tr.walks {
		if n := len(w.Conversation); n != 2*4+1 {
			t.Fatalf("%s has %d messages, want an observation, 4 moves and 4 replies", w.ID, n)
		}
		if whole := strings.Contains(w.Conversation[0].Content, "four actions"); whole != (i%2 == 0) {
			t.Fatalf("%s starts with the instruction: got %t; only every second walk may start with it", w.ID, whole)
		}
	}
	var seen lossOfReading
	if err := tr.read(ctx, ctx, &seen); err != nil {
		t.Fatal(err)
	}
	first, last := seen.losses[0], seen.losses[len(seen.losses)-1]
	if len(seen.losses) != 20 || !(last < first) {
		t.Errorf("got %d steps that changed the loss from %g to %g, want 20 steps and a lower loss", len(seen.losses), first, last)
	}

	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := tr.read(ctx, stopped, &seen); !errors.Is(err, errext.ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}
