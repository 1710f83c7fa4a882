package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/internal/process"
)

// conversation is one session of a job and the source of its random tokens.
type conversation struct {
	session *engine.Session
	rng     *rand.Rand
	row     int
}

// generate runs a generation job. As in a rollout, each conversation has a
// goroutine, and the scheduler batches their requests.
func (o *Ours) generate(ctx context.Context, j Job) (took time.Duration, err error) {
	var talks []*conversation
	defer func() {
		for _, c := range talks {
			o.sampler.Scheduler.Close(c.session)
		}
	}()
	for row := range j.Batch {
		s, err := o.sampler.Scheduler.Open(ctx, engine.SessionOptions{
			Key: engine.Key{Task: fmt.Sprintf("%s/%d", j.Kind, o.runs), Sample: row}, MaxContext: j.context() + 1,
		})
		if err != nil {
			return 0, err
		}
		talks = append(talks, &conversation{session: s, rng: rand.New(rand.NewPCG(1, uint64(row))), row: row})
	}
	if j.Kind == Decode {
		if _, err := o.together(ctx, talks, func(ctx context.Context, c *conversation) error {
			return o.reply(ctx, c, j, j.Context, 1, 0)
		}); err != nil {
			return 0, err
		}
	}
	lengths, played := j.lengths(), j.played()
	return o.together(ctx, talks, func(ctx context.Context, c *conversation) error {
		switch j.Kind {
		case Prefill:
			return o.reply(ctx, c, j, lengths[c.row], 1, 0)
		case Decode:
			return o.reply(ctx, c, j, 0, j.New, 1)
		}
		given := j.Prompt
		for turn := range played[c.row] {
			if err := o.reply(ctx, c, j, given, j.New, turn); err != nil {
				return err
			}
			given = j.Observation
		}
		return nil
	})
}

// together runs f for all conversations at once and returns the duration. It sets o.cpu.
func (o *Ours) together(ctx context.Context, talks []*conversation, f func(context.Context, *conversation) error) (time.Duration, error) {
	began, cpu := time.Now(), process.CPUTime()
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range talks {
		g.Go(func() error { return f(ctx, c) })
	}
	err := g.Wait()
	o.cpu = process.CPUTime() - cpu
	return time.Since(began), err
}

// reply appends random tokens to a conversation of job j, as many as the argument given says, and samples n tokens.
func (o *Ours) reply(ctx context.Context, c *conversation, j Job, given, n, turn int) error {
	r, err := o.sampler.Scheduler.Generate(ctx, c.session, o.ids(c.rng, given), engine.Params{
		MaxNew: n, Greedy: j.Temperature == 0, Temperature: j.Temperature, Turn: turn,
	})
	if err != nil {
		return err
	}
	if len(r.IDs) != n {
		return fmt.Errorf("the reply has %d tokens, want %d (stop reason %s)", len(r.IDs), n, r.Stop)
	}
	return nil
}
