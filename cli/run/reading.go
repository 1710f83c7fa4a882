package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/optim"
)

// A fresh model is pretrained on random walks, which follow the rules of the
// environment but do not aim at its goal. The loss covers every token, so that
// the model learns to read positions and walls from the text before.

// playWalks plays random walks on the training tasks in turn. Every second walk
// starts in the middle of an episode, so that the model cannot guess its first
// position.
func (t *training) playWalks(ctx context.Context) error {
	f := t.cfg.Model.Fresh
	if f.Layers == 0 || t.run.checkpoint != nil || t.dump != nil {
		return nil
	}
	for _, e := range t.envs {
		walks := make([]data.Task, f.Walks/len(t.envs))
		var cut, ended atomic.Int64
		bar := t.host.Progress("playing walks of "+e.Spec.Name, len(walks))
		// Play concurrently, so that a server that hangs delays only one walk.
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(t.cfg.Agent.MaxWorkers)
		for n := range walks {
			g.Go(func() error {
				task := e.train[n%len(e.train)]
				task.ID = fmt.Sprintf("walk_%d", n)
				rng := rand.New(rand.NewPCG(t.cfg.Trainer.Seed, uint64(n)))
				unread := 0
				if n%2 == 1 {
					unread = 1 + rng.IntN(f.WalkTurns)
				}
				moves := builtin.MazeWalk(task.Index, unread+f.WalkTurns, rng)
				made, err := playWalk(ctx, e.World, e.setup, &task, moves)
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
			t.host.Log.Warn("server failures cut walks short", "env", e.Spec.Name, "walks", len(walks), "cut_short", n)
		}
		t.walks = append(t.walks, walks...)
	}
	return nil
}

// walkTries bounds the attempts to play a walk on failing servers. The longest
// attempt is kept.
const walkTries = 8

// playWalk plays the moves of one walk and returns the number of moves made.
func playWalk(ctx context.Context, w *World, setup agent.Setup, task *data.Task, moves []string) (made int, err error) {
	p, err := playActions(ctx, w, setup, *task, moves, walkTries)
	switch {
	case err == nil && p.made < len(moves):
		return 0, errext.With(errext.Env, "lower model.fresh.walk_turns, or remove env.servers to use the built-in maze",
			fmt.Errorf("%s of %s ended before its %d moves were made", task.ID, w.Spec.Name, len(moves)))
	case err != nil && (p.made == 0 || !isServerFailure(err)):
		return 0, errext.With(errext.Env, "fix or restart the servers", fmt.Errorf("%s of %s: %w", task.ID, w.Spec.Name, err))
	}
	task.Conversation, err = p.Conversation(setup.Options.InstructionRole)
	return p.made, err
}

// PhaseRead replaces algo.PhaseSFT in the steps that pretrain a fresh model on random
// walks.
const PhaseRead = "read"

// readingEvents reports supervised phases as PhaseRead.
type readingEvents struct{ algo.Events }

func (e readingEvents) Phase(p algo.Phase) {
	if p.Name == algo.PhaseSFT {
		p.Name = PhaseRead
	}
	e.Events.Phase(p)
}

// read pretrains a fresh model on its random walks for one epoch.
func (t *training) read(ctx, soft context.Context, events algo.Events) error {
	if len(t.walks) == 0 {
		return nil
	}
	rows, counts, err := learner.SFTRows(t.walks, t.sampler.Renderer, t.cfg.Rollout.MaxContextTokens, learner.TruncateError)
	if err != nil {
		return errext.With(errext.Input, "lower model.fresh.walk_turns, or raise rollout.max_context_tokens", err)
	}
	for i := range rows {
		for j := range rows[i].Mask {
			rows[i].Mask[j] = 1
		}
		rows[i].Mask[0] = 0 // the first token is not predicted
	}
	sink, err := t.metrics(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	o := readingOptions(t.cfg, rows)
	o.Events, o.Ranks = events, t.host.Ranks
	t.onRanks(&o.Micro)
	loss, line := 0.0, readingLine{}
	err = algo.TrainSFT(ctx, soft, t.actor, o, 0, func(step, steps int, m algo.Metrics) error {
		if line.add(m); sink != nil && (step == steps || step%readingEvery(steps) == 0) {
			if err := sink.Write(track.Line{Phase: track.PhaseRead, Step: step, Time: time.Now(), Metrics: line.metrics()}); err != nil {
				return err
			}
			line = readingLine{}
		}
		m[track.ReadStep] = float64(step)
		loss = m[track.SFTLoss]
		events.Step(0, steps, m)
		return nil
	})
	if err != nil {
		return readingError(t.run, err)
	}
	t.host.Log.Info("the fresh model was trained on its walks", "walks", counts.Rows, "tokens", counts.Tokens, "loss", loss,
		"seconds", time.Since(began).Seconds())
	return nil
}

// readingError adds the exit code and a hint to an error of the pretraining.
func readingError(run *runFolder, err error) error {
	err = fmt.Errorf("reading: %w", err)
	if is[*learner.DivergedError](err) {
		return errext.With(errext.Diverged, "lower model.fresh.walk_lr", err)
	}
	return trainError(run, err)
}

// readingOptions returns the options of the pretraining on random walks.
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

// readingLines is the approximate number of lines in metrics.jsonl for the
// hundreds of steps of the pretraining.
const readingLines = 50

// readingEvery returns the number of pretraining steps that share a line.
func readingEvery(steps int) int { return max(1, (steps+readingLines-1)/readingLines) }

// readingLine accumulates the pretraining steps that share a line. The names of the
// metrics differ from those of [sft], because the loss covers other tokens.
type readingLine struct {
	last                                   algo.Metrics
	steps                                  int // number of steps that were not skipped
	loss, gradNorm, lossTokens             float64
	tokens, skipped, seconds, readInSecond float64
}

// add adds the metrics of a supervised step.
func (l *readingLine) add(m algo.Metrics) {
	l.last = m
	l.tokens += m[track.SFTTokens]
	l.skipped += m[track.SFTSkipped]
	l.seconds += m[track.TimingSFT]
	l.readInSecond += m[track.SFTThroughput] * m[track.TimingSFT]
	if loss, ok := m[track.SFTLoss]; ok {
		l.steps++
		l.loss += loss * m[track.SFTTokens]
		l.lossTokens += m[track.SFTTokens]
		l.gradNorm += m[track.SFTGradNorm]
	}
}

// metrics returns the line: the position of the last step, the means of loss,
// gradient norm and speed, and the sums of the other metrics.
func (l *readingLine) metrics() algo.Metrics {
	out := algo.Metrics{
		track.ReadStep: l.last[track.SFTStep], track.ReadEpoch: l.last[track.SFTEpoch], track.ReadLR: l.last[track.SFTLR],
		track.ReadTokens: l.tokens, track.ReadSkipped: l.skipped, track.TimingRead: l.seconds,
	}
	if l.seconds > 0 {
		out[track.ReadThroughput] = l.readInSecond / l.seconds
	}
	if l.steps > 0 {
		out[track.ReadLoss], out[track.ReadGradNorm] = l.loss/l.lossTokens, l.gradNorm/float64(l.steps)
	}
	return out
}
