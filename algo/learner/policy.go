package learner

// The policy update of PPO, GRPO and similar methods (spec 5.7):
//
//	loss = agg(ℓ) - entropy_coef · agg(entropy) + kl_loss_coef · agg(KL(π, π_ref))
//
// with ℓ one of loss.Policies and agg one of loss.Aggregations over the tokens
// of the whole mini-batch; sharedcritic.go adds the loss of a critic on the same
// decoder.
//
// Sums are divided by the counts of the mini-batch, not of a micro-batch, so that
// micro-batching does not change the gradient, as in verl since 0.8. An empty mask
// gives 0.

import (
	"context"
	"errors"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// PolicyOptions configure UpdateActor.
type PolicyOptions struct {
	MiniBatch   int // number of episodes in an optimiser step; 0: all
	Passes      Passes
	Micro       MicroBatching
	Loss        string // name in loss.Policies
	LossOptions loss.Options
	Agg         string  // name in loss.Aggregations
	AggScale    float64 // divisor of seq-mean-token-sum-norm
	EntropyCoef float64
	Entropy     bool    // report the entropy by turn even if it is not in the loss
	KLCoef      float64 // coefficient of the KL loss; 0: no KL loss
	KLType      string  // name in kl.Estimators, with or without +, or kl.Full
	Reference   *model.Model
	Temperature float64 // temperature of sampling: log-probs are of the softmax of logits / Temperature
	GradClip    float64
	Seed        uint64     // seed of the draws of a loss and of the order of the passes
	Value       *ValueTerm // value loss of a shared critic; nil: none
	// Recorded means that OldLogProbs were computed with other weights than the weights
	// before the update.
	Recorded bool
}

// PolicyStats are means over the tokens, the mini-batches or the optimiser
// steps of an update.
type PolicyStats struct {
	Loss, KL                                float64 // means over the mini-batches of their aggregated values
	ClipFrac, ClipFracLower, PPOKL, Entropy float64 // means over the tokens
	GradNorm                                float64
	Steps                                   int // number of optimiser steps that were done
	Skipped                                 int // number of optimiser steps that were skipped as not finite
	Value                                   CriticStats
	Gap                                     LogProbGap
}

// sums lists the statistics that an update sums over tokens or over mini-batches.
func (st *PolicyStats) sums() []*float64 {
	own := []*float64{&st.Loss, &st.KL, &st.ClipFrac, &st.ClipFracLower, &st.PPOKL, &st.Entropy}
	return append(own, st.Value.sums()...)
}

func (o PolicyOptions) needsEntropy() bool { return o.Entropy || o.EntropyCoef != 0 }

// fields lists the fields of the rows that an update writes.
func (o PolicyOptions) fields(onPolicy bool) []field {
	var list []field
	if o.needsEntropy() {
		list = append(list, Entropies)
	}
	if onPolicy || o.Loss == loss.Bypass {
		list = append(list, OldLogProbs)
	}
	return list
}

// UpdateActor trains on the rows, one optimiser step for each mini-batch (verl's
// update_policy). An update of a single step takes the current log-probs, detached, as
// the old ones: the ratio is exactly 1 and no extra pass is needed (spec 5.2).
// Otherwise the rows need OldLogProbs, except for loss.Bypass, which uses
// RolloutLogProbs. A KL loss needs RefLogProbs, except kl.Full, which runs the
// reference itself.
func (a *Actor) UpdateActor(ctx context.Context, rows []data.Row, lr float64, o PolicyOptions) (st PolicyStats, err error) {
	p, err := newPasses(rows, o.MiniBatch, o.Passes, o.Seed)
	if err != nil {
		return st, err
	}
	o.Micro = a.withDropout(o.Micro)
	// With dropout the log-probs of the update differ from the policy's.
	single := p.steps() == 1 && !o.Recorded && a.compute.Dropout() == 0
	tokens := 0
	err = a.update(p, &st.Steps, func(mini []data.Row) error {
		seen, err := a.updateMiniBatch(ctx, mini, lr, single, o, &st)
		tokens += seen
		o.Seed++
		return err
	})
	if err != nil {
		return st, err
	}
	if o.Loss == loss.Bypass && len(p.first) > 0 { // only the first mini-batch has log-probs from before the update
		p.first = p.first[:1]
	}
	st.Gap = NewLogProbGap(slices.Concat(p.first...))
	if tokens > 0 {
		for _, v := range []*float64{&st.ClipFrac, &st.ClipFracLower, &st.PPOKL, &st.Entropy, &st.Value.Loss, &st.Value.ClipFrac, &st.Value.Mean} {
			*v /= float64(tokens)
		}
	}
	if st.Steps > 0 {
		for _, v := range []*float64{&st.Loss, &st.KL, &st.GradNorm, &st.Value.GradNorm} {
			*v /= float64(st.Steps)
		}
	}
	return st, nil
}

// updateMiniBatch does one optimiser step and adds the sums over its tokens to st.
func (a *Actor) updateMiniBatch(ctx context.Context, rows []data.Row, lr float64, onPolicy bool, o PolicyOptions, st *PolicyStats) (tokens int, err error) {
	if tokens = LossTokens(rows); tokens == 0 {
		return 0, nil
	}
	var mini PolicyStats
	shares := []optim.Share{{Of: a.adamw, LR: lr, MaxNorm: o.GradClip}}
	if v := o.Value; v != nil {
		shares = append(shares, optim.Share{Of: v.Critic.headAdamW, LR: v.LR, MaxNorm: v.GradClip})
	}
	norms, skipped, err := a.optimize(ctx, rows, o.Micro, mini.sums(), func() error {
		return a.accumulatePolicy(ctx, rows, onPolicy, o, &mini)
	}, shares...)
	switch {
	case err != nil:
		return 0, err
	case skipped:
		st.Skipped++
		st.Value.Skipped = st.Skipped
		for i := range rows { // discard the log-probs and entropies of the skipped step
			for _, f := range o.fields(onPolicy) {
				*f(&rows[i]) = nil
			}
		}
		return 0, nil
	}
	if err := o.Micro.exchange(ctx, a.master.Thread(), rows, o.fields(onPolicy)...); err != nil {
		return 0, o.Micro.abort(err)
	}
	add(st.sums(), mini.sums())
	st.GradNorm += norms[0]
	st.Steps++
	if o.Value != nil {
		st.Value.GradNorm += norms[1]
		st.Value.Steps = st.Steps
	}
	return tokens, nil
}

// accumulatePolicy adds the gradient of a mini-batch to the weights' gradients.
func (a *Actor) accumulatePolicy(ctx context.Context, rows []data.Row, onPolicy bool, o PolicyOptions, st *PolicyStats) error {
	u, err := a.newPolicyUpdate(ctx, rows, onPolicy, o)
	if err != nil {
		return err
	}
	var others []*model.Model
	if o.KLCoef != 0 && o.KLType == kl.Full {
		others = append(others, o.Reference)
	}
	return a.accumulate(ctx, rows, o.Micro, st.sums(), func(s *torch.Scope, p *packed) (torch.Tensor, error) {
		return u.loss(s, a.compute, p, st)
	}, others...)
}

// policyUpdate holds the state that the micro-batches of one mini-batch share.
type policyUpdate struct {
	o        PolicyOptions
	policy   loss.Policy
	onPolicy bool
	tokens   int       // number of tokens in the loss of the mini-batch
	starts   []int     // index of each row's first token among the tokens in the loss
	weights  []float32 // weight of each token in the aggregation
	chosen   []bool    // result of policy.Choose for each token; nil: no Choose
}

func (a *Actor) newPolicyUpdate(ctx context.Context, rows []data.Row, onPolicy bool, o PolicyOptions) (*policyUpdate, error) {
	u := &policyUpdate{o: o, onPolicy: onPolicy}
	for i := range rows {
		u.starts = append(u.starts, u.tokens)
		u.tokens += LossTokens(rows[i : i+1])
	}
	var err error
	if u.policy, err = loss.Policies.Lookup(o.Loss); err != nil {
		return nil, err
	}
	aggregate, err := loss.Aggregations.Lookup(o.Agg)
	if err != nil {
		return nil, err
	}
	if u.weights, err = tokenWeights(rows, aggregate, o.AggScale); err != nil {
		return nil, err
	}
	if u.policy.Choose != nil {
		u.chosen, err = a.choose(ctx, rows, u)
	}
	return u, err
}

// tokenWeights returns, for the aggregation of a mini-batch, the weight of each token in
// the loss. A mean over rows is a mean over episodes: in a mean over contexts, an
// episode of many contexts would have a higher weight.
func tokenWeights(rows []data.Row, aggregate loss.Aggregation, scale float64) ([]float32, error) {
	spans, err := data.EpisodeSpans(rows)
	if err != nil {
		return nil, err
	}
	lens := make([]int, len(spans))
	for i, s := range spans {
		lens[i] = LossTokens(rows[s[0]:s[1]])
	}
	weight := aggregate(lens, scale)
	var out []float32
	for _, n := range lens {
		out = append(out, slices.Repeat([]float32{float32(weight(n))}, n)...)
	}
	return out, nil
}

// choose returns the tokens that the policy's Choose selects by the statistics of the
// whole mini-batch. To do so, it computes the current log-probs.
func (a *Actor) choose(ctx context.Context, rows []data.Row, u *policyUpdate) ([]bool, error) {
	now := slices.Clone(rows) // a copy, so that LogProbs does not overwrite OldLogProbs of rows
	if err := LogProbs(CountRows(ctx, nil), a.compute, now, u.o.Micro, u.o.Temperature, OldLogProbs); err != nil {
		return nil, err
	}
	var tokens []loss.Token
	for i := range rows {
		for t := 1; t < len(rows[i].Tokens); t++ {
			if rows[i].Mask[t] != 1 {
				continue
			}
			tok := loss.Token{LogP: float64(now[i].OldLogProbs[t]), Adv: float64(rows[i].Advantages[t])}
			if tok.Old = tok.LogP; !u.onPolicy {
				tok.Old = float64(rows[i].OldLogProbs[t])
			}
			tokens = append(tokens, tok)
		}
	}
	return u.policy.Choose(tokens, u.o.LossOptions, u.o.Seed), nil
}

// ofBatch selects the values of a micro-batch's tokens from those of the mini-batch.
func ofBatch[T any](u *policyUpdate, p *packed, all []T) []T {
	var out []T
	for i, row := range p.index {
		out = append(out, all[u.starts[row]:u.starts[row]+p.lens[i]]...)
	}
	return out
}

// loss returns the part of the mini-batch's loss of one micro-batch.
func (u *policyUpdate) loss(s *torch.Scope, m *model.Model, p *packed, st *PolicyStats) (torch.Tensor, error) {
	o := u.o
	hidden := p.hidden(s, m)
	logp, entropy := p.logProbs(m, hidden, o.Temperature, o.needsEntropy())
	if o.needsEntropy() {
		p.later(entropy, func(hs []float64) {
			p.scatter(narrow(hs), Entropies)
			for _, h := range hs {
				st.Entropy += h
			}
		})
	}
	b := loss.Batch{LogP: logp, Adv: p.gather(s, func(r *data.Row) *[]float32 { return &r.Advantages }), Lens: p.lens}
	if u.onPolicy || o.Loss == loss.Bypass {
		b.Old = logp.Detach()
		p.later(b.Old, func(logps []float64) { p.scatter(narrow(logps), OldLogProbs) })
	} else {
		b.Old = p.gather(s, OldLogProbs)
	}
	if o.Loss == loss.Bypass {
		b.Old = p.gather(s, func(r *data.Row) *[]float32 { return &r.RolloutLogProbs })
	}
	if p.rows[0].Weights != nil {
		b.Weights = p.gather(s, func(r *data.Row) *[]float32 { return &r.Weights })
	}
	if u.chosen != nil {
		b.Chosen = ofBatch(u, p, u.chosen)
	}
	perToken, sums := u.policy.Loss(s, b, o.LossOptions)
	p.laterAdd(sums.ClipFrac, &st.ClipFrac)
	p.laterAdd(sums.ClipFracLower, &st.ClipFracLower)
	p.laterAdd(sums.PPOKL, &st.PPOKL)

	w := s.Float32s(ofBatch(u, p, u.weights), len(p.at))
	total := perToken.Mul(w).Sum()
	p.laterAdd(total, &st.Loss)
	if o.EntropyCoef != 0 {
		total = total.Sub(entropy.Mul(w).Sum().MulScalar(o.EntropyCoef))
	}
	if o.KLCoef != 0 {
		distance, err := u.kl(s, m, p, hidden, logp)
		if err != nil {
			return torch.Tensor{}, err
		}
		sum := distance.Mul(w).Sum()
		p.laterAdd(sum, &st.KL)
		total = total.Add(sum.MulScalar(o.KLCoef))
	}
	if v := o.Value; v != nil {
		sum := v.Critic.head.loss(s, p, hidden, v.Clip, &st.Value)
		total = total.Add(sum.MulScalar(v.Coef / float64(u.tokens)))
	}
	return total, nil
}

// kl returns the KL to the reference of each token [M].
func (u *policyUpdate) kl(s *torch.Scope, m *model.Model, p *packed, hidden, logp torch.Tensor) (torch.Tensor, error) {
	o := u.o
	if o.KLType == kl.Full && p.kept != nil {
		return torch.Tensor{}, errors.New("kl_loss_type = \"full\", the KL over the whole vocabulary, does not support tokens sampled with top-k or top-p: use another kl_loss_type")
	}
	if o.KLType != kl.Full {
		return kl.Loss(o.KLType, logp, p.gather(s, RefLogProbs))
	}
	scores := func(m *model.Model, hidden torch.Tensor) torch.Tensor {
		return m.AllLogits(hidden).To(torch.Float32).MulScalar(1 / o.Temperature)
	}
	var ref torch.Tensor
	s.NoGrad(func() {
		defer o.Reference.DropTapes()
		ref = scores(o.Reference, p.hidden(s, o.Reference))
	})
	return kl.Exact(scores(m, hidden), ref), nil
}

// AddTo writes the metrics of an update with options o to m.
func (st PolicyStats) AddTo(m map[string]float64, o PolicyOptions) {
	m[track.ActorLoss] = st.Loss
	m[track.ActorClipFrac] = st.ClipFrac
	m[track.ActorClipFracLower] = st.ClipFracLower
	m[track.ActorPPOKL] = st.PPOKL
	m[track.ActorGradNorm] = st.GradNorm
	m[track.ActorSkipped] = float64(st.Skipped)
	if o.needsEntropy() {
		m[track.ActorEntropyLoss] = st.Entropy
	}
	if o.KLCoef != 0 {
		m[track.ActorKLLoss] = st.KL
		m[track.ActorKLCoef] = o.KLCoef
	}
	st.Gap.AddTo(m)
}
