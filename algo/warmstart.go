package algo

import (
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
)

// warmStart does the supervised epochs before the first step. A resumed run
// goes on inside them: the actor's optimiser is then theirs already.
func (t *Trainer) warmStart(ctx, soft context.Context) error {
	o := *t.o.WarmStart
	if t.state.WarmSteps == 0 {
		if err := t.actor.ResetOptimizer(ctx, o.AdamW); err != nil {
			return err
		}
	}
	saved := time.Now()
	o.Events = t.events
	err := TrainSFT(ctx, soft, t.actor, o, t.state.WarmSteps, func(step, steps int, m Metrics) error {
		t.state.WarmSteps = step
		t.keepBadSteps()
		t.state.Unreported, t.unsaved = m, true
		if err := t.reportWarm(steps); err != nil {
			return err
		}
		if step == steps || o.SaveAfter <= 0 || time.Since(saved) < o.SaveAfter {
			return nil
		}
		saved = time.Now()
		return t.SaveCheckpoint(ctx)
	})
	if err != nil {
		return err
	}
	return t.actor.ResetOptimizer(ctx, t.o.AdamW)
}

// reportWarm writes the line of a step of the warm start.
func (t *Trainer) reportWarm(steps int) error {
	m := Metrics(t.state.Unreported)
	if err := t.write(0, m); err != nil {
		return err
	}
	t.state.Unreported = nil
	t.events.Step(0, steps, m)
	return nil
}

// TrainSFT runs supervised epochs from optimiser step `from` on and reports
// every step. The rows are drawn in an order that the seed alone decides.
func TrainSFT(ctx, soft context.Context, a *learner.Actor, o SFTOptions, from int, report func(step, steps int, m Metrics) error) error {
	steps := o.Steps()
	schedule := o.Schedule(steps)
	order, err := data.NewOrder(len(o.Rows), true, o.Seed)
	if err != nil {
		return err
	}
	events := o.Events
	if events == nil {
		events = noEvents{}
	}
	for step := range from {
		order.Next(o.batch(step + 1))
	}
	for step := from + 1; step <= steps; step++ {
		if soft.Err() != nil {
			return ErrInterrupted
		}
		began := time.Now()
		rows := make([]data.Row, 0, o.BatchRows)
		tokens := 0
		for _, i := range order.Next(o.batch(step)) {
			rows = append(rows, o.Rows[i])
			tokens += len(o.Rows[i].Tokens)
		}
		lr := schedule.LR(step - 1)
		events.Phase(Phase{Name: PhaseSFT, Step: step, Steps: steps, Total: len(rows)})
		st, err := a.UpdateSFT(rowsTo(ctx, events), rows, lr, o.GradClip, o.Micro)
		if err != nil {
			return fmt.Errorf("supervised step %d: %w", step, err)
		}
		seconds := time.Since(began).Seconds()
		m := Metrics{
			"sft/step": float64(step), "sft/epoch": float64(step / o.perEpoch()), "train/loss": st.Loss, "train/grad_norm": st.GradNorm, "train/lr": lr,
			"train/tokens": float64(st.Tokens), "timing_s/sft": seconds, "perf/sft_tokens_per_s": float64(tokens) / seconds,
			"train/skipped_steps": 0,
		}
		if st.Skipped { // its loss is no number to draw
			delete(m, "train/loss")
			delete(m, "train/grad_norm")
			m["train/skipped_steps"] = 1
		}
		if err := report(step, steps, m); err != nil {
			return err
		}
	}
	return nil
}
