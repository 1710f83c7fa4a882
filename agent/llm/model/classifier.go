package model

// Sequence classifiers, as transformers' *ForSequenceClassification: the linear
// layer score, without a bias, maps the hidden state of one token to the scores,
//
//	scores = score.weight · h_t
//
// where t is the last token that is not pad_token_id. A classifier with one label is
// a reward model.
//
// Differs from transformers in that the layer computes in float32 for any dtype of
// the decoder.

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// ErrNoReward means that a folder is not a reward model.
var ErrNoReward = errors.New("a reward model is a sequence classifier of one label: *ForSequenceClassification in architectures, score.weight among the weights")

// checkKind returns an error if classifier is set and c is not a reward
// model, or if classifier is not set and c is not a language model.
func (c *Config) checkKind(classifier bool) error {
	switch {
	case classifier && c.Labels == 0:
		return fmt.Errorf("the model is a language model without a score head: %w", ErrNoReward)
	case classifier && c.Labels > 1:
		return fmt.Errorf("the score head has %d labels (num_labels, id2label): %w", c.Labels, ErrNoReward)
	case !classifier && c.Labels > 0:
		return errors.New("the model is a sequence classifier, which scores texts and cannot generate them; use a language model")
	}
	return nil
}

// CheckReward returns an error if Open with Options.Classifier would refuse the
// model.
func (d *Description) CheckReward() error {
	if d.Adapters != nil {
		return fmt.Errorf("the path is a folder of adapters: %w", ErrNoReward)
	}
	return d.Config.checkKind(true)
}

// Scores returns the score of every sequence from one packed forward pass
// without gradients. The model must be a classifier with one label.
func (m *Model) Scores(ctx context.Context, seqs ...[]int32) ([]float32, error) {
	if m.Config.Labels != 1 {
		return nil, fmt.Errorf("score: %w", m.Config.checkKind(true))
	}
	if len(seqs) == 0 {
		return nil, nil
	}
	for i, seq := range seqs {
		if len(seq) == 0 {
			return nil, fmt.Errorf("score: sequence %d is empty", i)
		}
		if err := m.Config.CheckIDs(seq); err != nil {
			return nil, fmt.Errorf("score: sequence %d: %w", i, err)
		}
	}
	ids, positions, offsets := Pack(seqs...)
	last := make([]int64, len(seqs))
	for i, seq := range seqs {
		last[i] = int64(offsets[i] + m.Config.lastUnpadded(seq))
	}
	var scores []float32
	err := torch.Run(ctx, m.thread, func(s *torch.Scope) error {
		defer m.DropTapes()
		s.NoGrad(func() {
			hidden := m.Forward(s, ids, positions, offsets).IndexSelect(0, s.Int64s(last, len(last)))
			m.holdHead()
			scores = hidden.To(torch.Float32).Linear(m.Score.Weight.To(torch.Float32), torch.Tensor{}).ToFloat32s()
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	return scores, nil
}

// lastUnpadded returns the index of the last token that is not padding, or 0.
func (c *Config) lastUnpadded(ids []int32) int {
	last := len(ids) - 1
	if c.PadTokenID == nil {
		return last
	}
	for last > 0 && ids[last] == *c.PadTokenID {
		last--
	}
	return last
}
