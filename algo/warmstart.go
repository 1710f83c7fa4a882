package algo

import (
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/data"
)

// warmStart does the supervised epochs before the first step. They are not
// resumed in the middle: a run killed here begins them anew, from the same
// seed, and so does the same again.
func (t *Trainer) warmStart(ctx, soft context.Context) error {
	return t.engine.Exclusive(ctx, func() error {
		if err := t.actor.ResetOptimizer(ctx, t.o.WarmStart.AdamW); err != nil {
			return err
		}
		err := TrainSFT(ctx, soft, t.actor, *t.o.WarmStart, 0, func(step, steps int, m Metrics) error {
			if err := t.write(0, m); err != nil {
				return err
			}
			t.events.Step(0, steps, m)
			return nil
		})
		if err != nil {
			return err
		}
		return t.actor.ResetOptimizer(ctx, t.o.AdamW)
	})
}

// TrainSFT runs supervised epochs from optimiser step `from` on and reports
// every step. The rows are drawn in an order that the seed alone decides.
func TrainSFT(ctx, soft context.Context, a *Actor, o SFTOptions, from int, report func(step, steps int, m Metrics) error) error {
	steps := o.Steps()
	schedule := o.Schedule(steps)
	order, err := data.NewOrder(len(o.Rows), true, o.Seed)
	if err != nil {
		return err
	}
	for range from {
		order.Next(min(o.BatchRows, len(o.Rows)))
	}
	for step := from + 1; step <= steps; step++ {
		if soft.Err() != nil {
			return ErrInterrupted
		}
		began := time.Now()
		rows := make([]data.Row, 0, o.BatchRows)
		tokens := 0
		for _, i := range order.Next(min(o.BatchRows, len(o.Rows))) {
			rows = append(rows, o.Rows[i])
			tokens += len(o.Rows[i].Tokens)
		}
		lr := schedule.LR(step - 1)
		st, err := a.UpdateSFT(ctx, rows, lr, o.GradClip, o.Micro)
		if err != nil {
			return fmt.Errorf("supervised step %d: %w", step, err)
		}
		seconds := time.Since(began).Seconds()
		m := Metrics{
			"sft/step": float64(step), "train/loss": st.Loss, "train/grad_norm": st.GradNorm, "train/lr": lr,
			"train/tokens": float64(st.Tokens), "timing_s/sft": seconds, "perf/sft_tokens_per_s": float64(tokens) / seconds,
		}
		if err := report(step, steps, m); err != nil {
			return err
		}
	}
	return nil
}
