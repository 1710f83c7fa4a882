package rollout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/data"
)

// notes is an Observer that records its calls.
type notes struct {
	mu    sync.Mutex
	first map[Running]string
	turns map[Running][]string
	ended map[Running]data.Outcome
}

func (n *notes) Began(r Running, first string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first[r] = first
}

func (n *notes) Turn(r Running, t *data.Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns[r] = append(n.turns[r], t.Text+"|"+t.Observation)
}

func (n *notes) Ended(r Running, e *data.Episode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[r] = e.Outcome
}

// TestObserver checks that an observer sees the start, every answered turn and the end of each
// attempt, also of an attempt that is repeated.
func TestObserver(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		s := newStage(t, deterministic)
		var once sync.Once
		s.world.step = func(_ context.Context, index, step int) (err error) {
			if index == 1 && step == 2 {
				once.Do(func() { err = errors.New("lost") })
			}
			return err
		}
		seen := &notes{first: map[Running]string{}, turns: map[Running][]string{}, ended: map[Running]data.Outcome{}}
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(3),
			Options{GroupSize: 2, Concurrency: 3, Deterministic: deterministic, Observer: seen})
		if err != nil || stats.Retries != 1 {
			t.Fatalf("%d retries, want 1; %v", stats.Retries, err)
		}
		if len(seen.ended) != len(eps)+1 || len(seen.first) != len(eps)+1 {
			t.Errorf("%d starts and %d ends of attempts, want %d of each", len(seen.first), len(seen.ended), len(eps)+1)
		}
		for _, ep := range eps {
			r := Running{Env: ep.Task.Table(), Task: ep.Task.ID, UID: ep.UID, Sample: ep.Sample, Attempt: ep.Attempts}
			var want []string
			for _, turn := range ep.Turns {
				if !turn.Unjudged {
					want = append(want, turn.Text+"|"+turn.Observation)
				}
			}
			if seen.first[r] != ep.FirstObservation || !slices.Equal(seen.turns[r], want) || seen.ended[r] != ep.Outcome {
				t.Errorf("%+v: the observer saw %q, %q and %s, want %q, %q and %s", r, seen.first[r], seen.turns[r], seen.ended[r],
					ep.FirstObservation, want, ep.Outcome)
			}
		}
	}
}
