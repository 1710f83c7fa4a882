package learner

// Supervised training on recorded trajectories (behaviour cloning):
//
//	loss = - Σ_t m_t log π(y_t | y_<t) / Σ_t m_t
//
// with m_t = 1 on the tokens of assistant messages, including their end tokens,
// and 0 on other tokens and on messages whose loss flag is false (AgentGym
// marks the acknowledgement of the instruction this way).
//
// The mean is over the tokens of the whole batch, as in verl's sft_trainer since
// 0.8; the earlier fsdp_sft_trainer took a mean of micro-batch means, and trained
// one reply at a time.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// TrajectoryRenderer turns a recorded conversation into ids and the loss mask.
type TrajectoryRenderer interface {
	Trajectory(messages []data.Message) (ids []int32, mask []uint8, err error)
}

// Values of truncation: how SFTRows treats a conversation that is longer than the
// limit (spec 1.8).
const (
	TruncateError = "error"
	TruncateDrop  = "drop"
	TruncateRight = "right"
	TruncateLeft  = "left"
)

// SFTCounts count the rows that SFTRows made, and the conversations that it dropped
// or truncated.
type SFTCounts struct {
	Rows, Dropped, Truncated int
	Tokens, LossTokens       int
}

// ErrTooLong is wrapped by SFTRows' error if a conversation is longer than the limit.
var ErrTooLong = errors.New("too long")

// SFTRows renders the recorded conversations of tasks to rows of at most maxLength
// tokens. It returns an error if no row is left.
func SFTRows(tasks []data.Task, r TrajectoryRenderer, maxLength int, truncation string) ([]data.Row, SFTCounts, error) {
	var rows []data.Row
	var counts SFTCounts
	long := 0 // number of conversations longer than the limit
	for i := range tasks {
		t := &tasks[i]
		if len(t.Conversation) == 0 {
			return nil, counts, fmt.Errorf("task %s has no recorded conversation: supervised training needs a file with conversations, not an index range", t.ID)
		}
		if !slices.ContainsFunc(t.Conversation, func(m data.Message) bool { return m.Role == "assistant" }) {
			return nil, counts, fmt.Errorf("task %s: its conversation has no message of the assistant to learn from: remove the row or correct the roles", t.ID)
		}
		ids, mask, err := r.Trajectory(t.Conversation)
		if err != nil {
			return nil, counts, fmt.Errorf("task %s: %w", t.ID, err)
		}
		if len(ids) > maxLength {
			long++
			switch truncation {
			case TruncateDrop:
				counts.Dropped++
				continue
			case TruncateRight:
				ids, mask = ids[:maxLength], mask[:maxLength]
				counts.Truncated++
			case TruncateLeft:
				ids, mask = ids[len(ids)-maxLength:], mask[len(mask)-maxLength:]
				counts.Truncated++
			default:
				return nil, counts, fmt.Errorf("task %s is %w: it has %d tokens, more than the %d allowed", t.ID, ErrTooLong, len(ids), maxLength)
			}
		}
		row := data.Row{UID: fmt.Sprintf("%s#%d", t.ID, i), TaskID: t.ID, Env: t.Env, Index: t.Index, Tokens: ids, Mask: mask}
		n := LossTokens([]data.Row{row})
		if n == 0 {
			counts.Dropped++ // no token is in the loss: a cut on the left can leave one reply token, at position 0
			continue
		}
		counts.Rows++
		counts.Tokens += len(ids)
		counts.LossTokens += n
		rows = append(rows, row)
	}
	switch {
	case len(rows) > 0:
	case long > 0:
		return nil, counts, fmt.Errorf("no conversation is left to train on: %d of %d are %w for %d tokens", long, len(tasks), ErrTooLong, maxLength)
	default:
		return nil, counts, errors.New("no conversation is left to train on: every reply has loss = false")
	}
	return rows, counts, nil
}

// LossSFT returns the mean loss of rows under the current weights, and the number of
// tokens over which the mean is taken.
func (a *Actor) LossSFT(ctx context.Context, rows []data.Row, micro MicroBatching) (loss float64, tokens int, err error) {
	rows = slices.Clone(rows) // a copy, so that OldLogProbs of the caller's rows do not change
	if err := LogProbs(ctx, a.compute, rows, micro, 1, OldLogProbs); err != nil {
		return 0, 0, err
	}
	for i := range rows {
		for t, lp := range rows[i].OldLogProbs {
			if t > 0 && rows[i].Mask[t] == 1 {
				loss -= float64(lp)
				tokens++
			}
		}
	}
	if tokens == 0 {
		return 0, 0, errors.New("no token of the validation is in the loss")
	}
	return loss / float64(tokens), tokens, nil
}

// SFTStats describe one optimiser step.
type SFTStats struct {
	Loss     float64 // mean negative log-prob per token, before the step
	GradNorm float64
	Tokens   int
	Skipped  bool // the step was skipped as not finite
}

// UpdateSFT does one optimiser step on the rows.
func (a *Actor) UpdateSFT(ctx context.Context, rows []data.Row, lr, gradClip float64, micro MicroBatching) (SFTStats, error) {
	st := SFTStats{Tokens: LossTokens(rows)}
	if st.Tokens == 0 {
		return st, errors.New("no token of the batch is in the loss")
	}
	if a.follows {
		return st, nil
	}
	micro = a.withDropout(micro)
	norms, skipped, err := a.optimize(ctx, rows, micro, []*float64{&st.Loss}, func() error {
		return a.accumulateSFT(ctx, rows, micro, &st)
	}, optim.Share{Of: a.adamw, LR: lr, MaxNorm: gradClip})
	if st.Skipped = skipped; err == nil && !skipped {
		st.GradNorm = norms[0]
	}
	return st, err
}

// accumulateSFT adds the gradient of a batch of st.Tokens tokens in the loss to the
// weights' gradients, and the loss of the batch to st.
func (a *Actor) accumulateSFT(ctx context.Context, rows []data.Row, micro MicroBatching, st *SFTStats) error {
	return a.accumulate(ctx, rows, micro, []*float64{&st.Loss}, func(s *torch.Scope, p *packed) (torch.Tensor, error) {
		logp, _ := a.compute.TokenLogProbs(p.hidden(s, a.compute), p.targets, nil, 1, false)
		loss := logp.Sum().MulScalar(-1 / float64(st.Tokens))
		p.laterAdd(loss, &st.Loss)
		return loss, nil
	})
}

// ImitationStats are means over the tokens or the optimiser steps of Imitate.
type ImitationStats struct {
	Loss     float64 // mean negative log-prob of a token, before its optimiser step
	GradNorm float64
	Steps    int // number of optimiser steps that were done
	Skipped  int // number of optimiser steps that were skipped as not finite
}

// Imitate trains on the sampled tokens of rows with the loss of UpdateSFT, in the passes
// and mini-batches of o.
func (a *Actor) Imitate(ctx context.Context, rows []data.Row, lr float64, o PolicyOptions) (st ImitationStats, err error) {
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	tokens := 0
	err = a.update(p, &st.Steps, func(mini []data.Row) error {
		if LossTokens(mini) == 0 {
			return nil
		}
		one, err := a.UpdateSFT(ctx, mini, lr, o.GradClip, o.Micro)
		switch {
		case err != nil:
			return err
		case one.Skipped:
			st.Skipped++
			return nil
		}
		st.Loss += one.Loss * float64(one.Tokens)
		st.GradNorm += one.GradNorm
		st.Steps++
		tokens += one.Tokens
		return nil
	})
	if err == nil && st.Steps > 0 {
		st.Loss /= float64(tokens)
		st.GradNorm /= float64(st.Steps)
	}
	return st, err
}
