package learner

import (
	"context"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// OldLogProbs selects a row's log-probs from before the update.
func OldLogProbs(r *data.Row) *[]float32 { return &r.OldLogProbs }

// RefLogProbs selects a row's log-probs under the reference.
func RefLogProbs(r *data.Row) *[]float32 { return &r.RefLogProbs }

// Entropies selects the entropies of a row's sampled tokens.
func Entropies(r *data.Row) *[]float32 { return &r.Entropies }

func values(r *data.Row) *[]float32 { return &r.Values }

func sumPiSquared(r *data.Row) *[]float32 { return &r.SumPiSquared }

// LogProbs computes log p(token | tokens before) of every sampled token under m, at
// the temperature of sampling, and writes it to the given field of each row.
// It computes no gradients.
func LogProbs(ctx context.Context, m *model.Model, rows []data.Row, micro MicroBatching, temperature float64, field func(*data.Row) *[]float32) error {
	return forward(ctx, m, rows, micro, func(s *torch.Scope, p *packed) {
		logp, _ := p.logProbs(m, p.hidden(s, m), temperature, false)
		p.scatter(logp.ToFloat32s(), field)
	}, field)
}

// forward calls f with each micro-batch of the rows. It computes no gradients. f scatters the
// given fields, which all ranks then have for all rows.
func forward(ctx context.Context, m *model.Model, rows []data.Row, micro MicroBatching, f func(s *torch.Scope, p *packed), fields ...field) error {
	err := eachMicroBatch(ctx, m.Thread(), rows, micro, m.Lockstep(), func(p *packed) error {
		return torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
			defer m.DropTapes()
			s.NoGrad(func() { f(s, p) })
			return nil
		})
	})
	if err == nil {
		err = micro.exchange(ctx, m.Thread(), rows, fields...)
	}
	return micro.abort(err)
}

// SumPiSquared computes OldLogProbs and SumPiSquared of the rows under m: the
// log-prob of every sampled token, and the sum of squares Σ_v π(v)² of the
// distribution from which the token was drawn. It computes no gradients.
//
// Two softmax passes give the sum. With z the logits, T the temperature and y the
// token,
//
//	log Σ_v π(v)² = lse(2z) - 2 lse(z) = 2 log π_T(y) - log π_{T/2}(y)
//
// where π_{T/2} is the softmax of 2z.
func SumPiSquared(ctx context.Context, m *model.Model, rows []data.Row, micro MicroBatching, temperature float64) error {
	return forward(ctx, m, rows, micro, func(s *torch.Scope, p *packed) {
		hidden := p.hidden(s, m)
		logp, _ := p.logProbs(m, hidden, temperature, false)
		sharp, _ := p.logProbs(m, hidden, temperature/2, false)
		p.scatter(logp.ToFloat32s(), OldLogProbs)
		p.scatter(logp.MulScalar(2).Sub(sharp).Exp().ToFloat32s(), sumPiSquared)
	}, OldLogProbs, sumPiSquared)
}
