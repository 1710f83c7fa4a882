package replay

import (
	"fmt"
	"math"
	"sync"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// Teacher is the engine.Teacher of the replayed episodes.
type Teacher struct {
	// Margin is the log-prob margin below which a sampled token that is not the
	// recorded one counts as a near tie instead of a difference. It allows for
	// rounding, which depends on the composition of the batches.
	Margin float64

	mu      sync.Mutex
	readers map[episodeKey]*reader // guarded by mu
}

// episodeKey identifies the episode to which a draw belongs.
type episodeKey struct {
	seed, task uint64
	sample     int
}

var _ engine.Teacher = (*Teacher)(nil)

func keyOf(e *data.Episode) episodeKey {
	return episodeKey{e.Seed, engine.TaskHash(e.Task.ID), e.Sample}
}

func (c *Teacher) add(r *reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers == nil {
		c.readers = map[episodeKey]*reader{}
	}
	l := keyOf(r.ep)
	if c.readers[l] != nil {
		return fmt.Errorf("task %s, sample %d with seed %d occurs twice", r.ep.Task.ID, r.ep.Sample, r.ep.Seed)
	}
	c.readers[l] = r
	return nil
}

func (c *Teacher) remove(r *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := keyOf(r.ep); c.readers[l] == r {
		delete(c.readers, l)
	}
}

func (c *Teacher) reader(d engine.Draw) *reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers[episodeKey{d.Seed, d.Task, d.Sample}]
}

// Recorded implements engine.Teacher.
func (c *Teacher) Recorded(d engine.Draw) (int32, bool) {
	r := c.reader(d)
	if r == nil || d.Turn >= len(r.ep.Turns) {
		return 0, false
	}
	t, at := &r.ep.Turns[d.Turn], r.place(d)
	if at < t.Start || at >= t.End {
		return 0, false
	}
	r.found.draws.Add(1)
	return r.ep.Tokens[at], true
}

// Differs implements engine.Teacher.
func (c *Teacher) Differs(d engine.Draw, recorded, drawn int32, margin float64) {
	r := c.reader(d)
	if r == nil {
		return
	}
	if margin < c.Margin {
		r.found.nearTies.Add(1)
		return
	}
	if math.IsInf(margin, 1) { // the recorded token is not in the vocabulary; JSON cannot encode the infinity
		margin = 0
	}
	r.found.add(Difference{
		Turn: d.Turn + 1, What: InIDs, At: r.place(d), Recorded: fmt.Sprint(recorded), Replayed: fmt.Sprint(drawn), Margin: margin,
	})
}
