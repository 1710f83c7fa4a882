package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/optim"
)

// A model with random weights cannot read: every run on a real model begins
// with one that learned to long before. A fresh model learns it here, from
// walks that know the rules of the environment and nothing of its goal. The
// loss is on every token, as in pretraining: where one is after a move, and
// which walls are there, has to be read off the text before.

// playWalks plays the random walks that a fresh model reads, from the training
// tasks in turn. Of every second one it reads a piece from the middle, as a
// text is cut for pretraining: what comes first is then no start of an
// episode, and has to be read rather than guessed.
func (t *training) playWalks(ctx context.Context) error {
	f := t.cfg.Model.Fresh
	if f.Layers == 0 || t.run.checkpoint != nil {
		return nil
	}
	for i, w := range t.worlds {
		walks := make([]data.Task, f.Walks/len(t.worlds))
		var cut, ended atomic.Int64
		bar := t.host.Progress("playing walks of "+w.Spec.Name, len(walks))
		// Many at a time: one that waits for a server that hangs holds up no other.
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(t.cfg.Agent.MaxWorkers)
		for n := range walks {
			g.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				task := t.train[i][n%len(t.train[i])]
				task.ID = fmt.Sprintf("walk_%d", n)
				rng := rand.New(rand.NewPCG(t.cfg.Trainer.Seed, uint64(n)))
				unread := 0
				if n%2 == 1 {
					unread = 1 + rng.IntN(f.WalkTurns)
				}
				moves := builtin.MazeWalk(task.Index, unread+f.WalkTurns, rng)
				made, err := playWalk(ctx, w, t.setups[i], &task, moves)
				if err != nil {
					return err
				}
				if made < len(moves) {
					cut.Add(1)
					unread = min(unread, max(0, made-f.WalkTurns))
				}
				task.Conversation = task.Conversation[2*unread:]
				walks[n] = task
				bar.Set(int(ended.Add(1)), "")
				return nil
			})
		}
		err := g.Wait()
		if bar.Done(); err != nil {
			return err
		}
		if n := cut.Load(); n > 0 {
			t.host.Log.Warn("servers broke walks off; they are read as far as they went", "env", w.Spec.Name, "walks", len(walks), "cut_short", n)
		}
		t.walks = append(t.walks, walks...)
	}
	return nil
}

// walkTries is how often a walk that servers break off is begun anew. The
// longest is kept: a text may end anywhere.
const walkTries = 8

// playWalk plays one walk and returns how many of its moves were made.
func playWalk(ctx context.Context, w *World, setup agent.Setup, task *data.Task, moves []string) (made int, err error) {
	var longest data.Task
	for range walkTries {
		try := *task
		var p played
		p, err = playActions(ctx, w, setup, &try, moves)
		switch {
		case err == nil && p.made < len(moves):
			return 0, errext.With(errext.Env, "set model.fresh.walk_turns lower, or leave out env.servers for the built-in maze",
				fmt.Errorf("%s of %s ended before its %d moves were made", task.ID, w.Spec.Name, len(moves)))
		case err != nil && !brokenOff(err):
			return 0, errext.With(errext.Env, "see to the servers", fmt.Errorf("%s of %s: %w", task.ID, w.Spec.Name, err))
		}
		if p.made > made {
			made, longest = p.made, try
		}
		if made == len(moves) {
			break
		}
	}
	if made == 0 {
		return 0, errext.With(errext.Env, "see to the servers", fmt.Errorf("%s of %s: no move went well in %d tries, the last time: %w", task.ID, w.Spec.Name, walkTries, err))
	}
	*task = longest
	return made, nil
}

// PhaseRead is the phase of a step in which a fresh model reads its walks. It
// takes the place of algo.PhaseSFT there.
const PhaseRead = "read"

// readingEvents reports supervised phases as PhaseRead.
type readingEvents struct{ algo.Events }

func (e readingEvents) Phase(p algo.Phase) {
	if p.Name == algo.PhaseSFT {
		p.Name = PhaseRead
	}
	e.Events.Phase(p)
}

// read trains a fresh model on the walks, once over them.
func (t *training) read(ctx, soft context.Context, events algo.Events) error {
	if len(t.walks) == 0 {
		return nil
	}
	rows, counts, err := learner.SFTRows(t.walks, t.sampler.Renderer, t.cfg.Rollout.MaxContextTokens, learner.TruncateError)
	if err != nil {
		return errext.With(errext.Input, "set model.fresh.walk_turns lower, or rollout.max_context_tokens higher", err)
	}
	for i := range rows {
		for j := range rows[i].Mask {
			rows[i].Mask[j] = 1
		}
		rows[i].Mask[0] = 0 // nothing comes before it
	}
	sink, err := t.metrics()
	if err != nil {
		return err
	}
	began := time.Now()
	o := readingOptions(t.cfg, rows)
	o.Events = events
	loss, line := 0.0, readingLine{}
	err = algo.TrainSFT(ctx, soft, t.actor, o, 0, func(step, steps int, m algo.Metrics) error {
		if line.add(m); step == steps || step%readingEvery(steps) == 0 {
			if err := sink.Write(0, line.metrics()); err != nil {
				return err
			}
			line = readingLine{}
		}
		m["read/step"] = float64(step)
		loss = m["train/loss"]
		events.Step(0, steps, m)
		return nil
	})
	if errors.Is(err, algo.ErrInterrupted) {
		return errext.ErrInterrupted
	}
	if algo.IsDiskError(err) {
		return errext.With(errext.Disk, "make room or set trainer.output_dir; the same command then begins anew", err)
	}
	if err != nil {
		return readingError(err)
	}
	t.host.Log.Info("the fresh model has read its walks", "walks", counts.Rows, "tokens", counts.Tokens, "loss", loss,
		"seconds", time.Since(began).Seconds())
	return nil
}

// readingError gives an error of reading its exit code.
func readingError(err error) error {
	err = fmt.Errorf("reading: %w", err)
	if diverged := new(*learner.DivergedError); errors.As(err, diverged) {
		return errext.With(errext.Diverged, "the learning rate of reading is model.fresh.walk_lr", err)
	}
	return errext.With(errext.Native, "", err)
}

func readingOptions(cfg configs.Config, rows []data.Row) algo.SFTOptions {
	f := cfg.Model.Fresh
	return algo.SFTOptions{
		Rows:      rows,
		Epochs:    1,
		BatchRows: f.WalkBatchSize,
		Micro:     learner.MicroBatching{Rows: f.WalkBatchSize},
		GradClip:  1,
		Seed:      cfg.Trainer.Seed,
		AdamW:     adamW(cfg.SFT.Optim),
		Schedule: func(steps int) optim.Schedule {
			return optim.Schedule{Shape: optim.Cosine, Base: f.WalkLR, Warmup: steps / 20, Steps: steps}
		},
	}
}

// readingLines is about how many lines of metrics.jsonl tell of reading, which
// has hundreds of steps before the first of the run.
const readingLines = 50

// readingEvery is how many steps of reading a line is about.
func readingEvery(steps int) int { return max(1, (steps+readingLines-1)/readingLines) }

// readingLine sums up the steps of reading that a line is about. Its metrics are
// those of supervised steps under the names of reading: the two losses are over
// other tokens and do not go on from one another.
type readingLine struct {
	last                                   algo.Metrics
	steps                                  int // that were not left out
	loss, gradNorm, lossTokens             float64
	tokens, skipped, seconds, readInSecond float64
}

// add takes the metrics of a supervised step.
func (l *readingLine) add(m algo.Metrics) {
	l.last = m
	l.tokens += m["train/tokens"]
	l.skipped += m["train/skipped_steps"]
	l.seconds += m["timing_s/sft"]
	l.readInSecond += m["perf/sft_tokens_per_s"] * m["timing_s/sft"]
	if loss, ok := m["train/loss"]; ok {
		l.steps++
		l.loss += loss * m["train/tokens"]
		l.lossTokens += m["train/tokens"]
		l.gradNorm += m["train/grad_norm"]
	}
}

// metrics are those of the line: where the last step is, means of the loss, of
// the gradient norm and of the speed, and sums of the others.
func (l *readingLine) metrics() algo.Metrics {
	out := algo.Metrics{
		"read/step": l.last["sft/step"], "read/epoch": l.last["sft/epoch"], "read/lr": l.last["train/lr"],
		"read/tokens": l.tokens, "read/skipped_steps": l.skipped, "timing_s/read": l.seconds,
	}
	if l.seconds > 0 {
		out["perf/read_tokens_per_s"] = l.readInSecond / l.seconds
	}
	if l.steps > 0 {
		out["read/loss"], out["read/grad_norm"] = l.loss/l.lossTokens, l.gradNorm/float64(l.steps)
	}
	return out
}
