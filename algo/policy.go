package algo

// The policy update of PPO and GRPO (spec 5.7, verl's "vanilla"):
//
//	x = clamp(log π - log π_old, ±20),  ρ = exp(x)
//	L = max(-A ρ, -A clip(ρ, 1-ε_low, 1+ε_high)),  for A < 0: min(L, -A c)
//	loss = Σ L m / Σ m over the whole mini-batch
//	     - entropy_coef · mean entropy + kl_loss_coef · mean KL(π, π_ref)
//
// Sources: Schulman et al., arXiv:1707.06347 (clip); Ye et al.,
// arXiv:1912.09729 (dual clip c); Yu et al., DAPO, arXiv:2503.14476
// (clip-higher, token mean).
//
// Differs from verl in: the mean is over the tokens of the mini-batch, not of
// the micro-batch, so that micro-batching cannot change the gradient; an
// empty mask gives 0.

import (
	"context"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// PolicyOptions configure UpdateActor.
type PolicyOptions struct {
	MiniBatch   int // rows in an optimiser step; 0: all
	Micro       MicroBatching
	ClipLow     float64
	ClipHigh    float64
	ClipC       float64
	EntropyCoef float64
	Entropy     bool    // report the entropy by turn also where it is not in the loss
	KLCoef      float64 // 0: no KL loss
	KLType      string  // k1, abs, k2, k3
	Temperature float64 // of the rollout: log-probs are those of logits / Temperature
	GradClip    float64
}

// PolicyStats are means over the tokens, or the optimiser steps, of an update.
type PolicyStats struct {
	Loss, ClipFrac, ClipFracLower, PPOKL float64
	Entropy, KL                          float64
	GradNorm                             float64
	Steps                                int // optimiser steps done
	Skipped                              int // left out, since they were not finite
	Gap                                  LogProbGap
}

func (o PolicyOptions) wantsEntropy() bool { return o.Entropy || o.EntropyCoef != 0 }

// UpdateActor makes one pass over the rows, one optimiser step a mini-batch
// (verl's update_policy). With a single mini-batch the old log-probs are the
// current ones, detached: the ratio is exactly 1 and no extra pass is needed
// (spec 5.2); otherwise OldLogProbs must be there. RefLogProbs must be there
// if the KL loss is on.
func (a *Actor) UpdateActor(ctx context.Context, rows []data.Row, lr float64, o PolicyOptions) (st PolicyStats, err error) {
	defer func() {
		if err != nil && st.Steps > 0 {
			a.torn = true
		}
	}()
	size := o.MiniBatch
	if size <= 0 || size > len(rows) {
		size = len(rows)
	}
	// With dropout the log-probs of the update are not those of the policy.
	single := size == len(rows) && a.compute.Dropout() == 0
	tokens := 0
	for start := 0; start < len(rows); start += size {
		mini := rows[start:min(start+size, len(rows))]
		n, err := a.updateMiniBatch(ctx, mini, lr, single, o, &st)
		if err != nil {
			return st, err
		}
		tokens += n
	}
	if tokens > 0 {
		for _, v := range []*float64{&st.Loss, &st.ClipFrac, &st.ClipFracLower, &st.PPOKL, &st.Entropy, &st.KL} {
			*v /= float64(tokens)
		}
	}
	if st.Steps > 0 {
		st.GradNorm /= float64(st.Steps)
	}
	// The log-probs from before the first step, whichever way they came about.
	st.Gap = newLogProbGap(rows, func(r *data.Row) []float32 { return r.OldLogProbs })
	return st, nil
}

// updateMiniBatch does one optimiser step and adds sums over its tokens to st.
func (a *Actor) updateMiniBatch(ctx context.Context, rows []data.Row, lr float64, onPolicy bool, o PolicyOptions, st *PolicyStats) (tokens int, err error) {
	before, norm := *st, 0.0
	if tokens, err = a.accumulatePolicy(ctx, rows, onPolicy, o, st); err == nil && tokens > 0 {
		norm, err = a.step(ctx, lr, o.GradClip)
	}
	left, err := a.leaveOut(rows, lr, err)
	switch {
	case err != nil || tokens == 0 && !left:
		return 0, err
	case left:
		*st = before
		st.Skipped++
		if onPolicy { // these are numbers of the step that was left out
			for i := range rows {
				rows[i].OldLogProbs = nil
			}
		}
		return 0, nil
	}
	st.GradNorm += norm
	st.Steps++
	return tokens, nil
}

// accumulatePolicy leaves the gradient of a mini-batch on the weights.
func (a *Actor) accumulatePolicy(ctx context.Context, rows []data.Row, onPolicy bool, o PolicyOptions, st *PolicyStats) (tokens int, err error) {
	tokens = maskedTokens(rows)
	if tokens == 0 {
		return 0, nil
	}
	batches, err := o.Micro.Split(rows)
	if err != nil {
		return 0, err
	}
	for _, b := range batches {
		p := pack(b)
		if len(p.at) == 0 {
			continue
		}
		err := a.backward(ctx, func(s *torch.Scope) torch.Tensor {
			return a.policyLoss(s, p, tokens, onPolicy, o, st)
		})
		if err != nil {
			return 0, err
		}
	}
	return tokens, nil
}

// policyLoss is a micro-batch's share of the loss, already divided by the
// tokens of the mini-batch.
func (a *Actor) policyLoss(s *torch.Scope, p *packed, tokens int, onPolicy bool, o PolicyOptions, st *PolicyStats) torch.Tensor {
	logp, entropy := p.logProbs(s, a.compute, o.Temperature, o.wantsEntropy())
	if o.wantsEntropy() {
		values := entropy.Detach().ToFloat32s()
		p.scatter(values, func(r *data.Row) *[]float32 { return &r.Entropies })
		for _, h := range values {
			st.Entropy += float64(h)
		}
	}
	var old torch.Tensor
	if onPolicy {
		old = logp.Detach()
		p.scatter(old.ToFloat32s(), func(r *data.Row) *[]float32 { return &r.OldLogProbs })
	} else {
		old = p.gather(s, func(r *data.Row) []float32 { return r.OldLogProbs })
	}
	adv := p.gather(s, func(r *data.Row) []float32 { return r.Advantages })
	ones := s.Ones(torch.Float32, len(p.row))
	loss, stats := torch.PolicyLoss(logp, old, adv, ones, torch.PolicyLossOptions{
		ClipLow: o.ClipLow, ClipHigh: o.ClipHigh, ClipC: o.ClipC, Normalizer: float64(tokens),
	})
	st.Loss += loss.Item() * float64(tokens)
	st.ClipFrac += stats.ClipFrac
	st.ClipFracLower += stats.ClipFracLower
	st.PPOKL += stats.PPOKL
	if o.EntropyCoef != 0 {
		loss = loss.Sub(entropy.Sum().MulScalar(o.EntropyCoef / float64(tokens)))
	}
	if o.KLCoef != 0 {
		ref := p.gather(s, func(r *data.Row) []float32 { return r.RefLogProbs })
		kl := torch.KLLoss(logp, ref, ones, float64(tokens), o.KLType)
		st.KL += kl.Item() * float64(tokens)
		loss = loss.Add(kl.MulScalar(o.KLCoef))
	}
	return loss
}

func (st PolicyStats) metrics(m map[string]float64, o PolicyOptions) {
	m["actor/pg_loss"] = st.Loss
	m["actor/pg_clipfrac"] = st.ClipFrac
	m["actor/pg_clipfrac_lower"] = st.ClipFracLower
	m["actor/ppo_kl"] = st.PPOKL
	m["actor/grad_norm"] = st.GradNorm
	m["actor/skipped_steps"] = float64(st.Skipped)
	if o.wantsEntropy() {
		m["actor/entropy_loss"] = st.Entropy
	}
	if o.KLCoef != 0 {
		m["actor/kl_loss"] = st.KL
		m["actor/kl_coef"] = o.KLCoef
	}
	st.Gap.metrics(m)
}
