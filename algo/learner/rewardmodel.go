package learner

// A reward model as a score function: a sequence classifier of one label reads
// the chat of an episode up to the last reply, in the classifier's chat template and
// tokens. The output of the classifier at the last token is the score.
//
// Source: RewardModelWorker of verl before 0.8 (_switch_chat_template, compute_rm_score).
// As in verl, the template writes the special tokens and the tokenizer adds none. If a
// chat is too long, its first tokens are kept; the metric "truncated" counts such
// chats.
//
// Differs from verl in: the whole conversation is rendered, turn by turn, while verl
// renders the prompt and one reply; the head has no bias, as in published sequence
// classifiers (verl opens them as token classifiers, with a bias).

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/torch"
)

// chatDate is the date that templates write into a chat. It is fixed, so that a chat
// has the same score on every day.
var chatDate = time.Date(2025, time.January, 1, 12, 0, 0, 0, time.UTC)

// RewardModel is a reward.Scorer that scores chats with a sequence classifier.
type RewardModel struct {
	bundle   *model.Bundle
	template *chat.Template
	most     int // maximum number of tokens of a chat
	o        RewardModelOptions
}

// RewardModelOptions configure NewRewardModel.
type RewardModelOptions struct {
	Rows      int // number of chats in a forward pass
	MaxTokens int // maximum number of tokens of a chat; 0: the number of positions of the model
	// Offload keeps the weights in host memory, except while the model scores chats.
	Offload bool
	// Opening holds the first messages of the run's chats. NewRewardModel checks that the
	// template renders these messages followed by further turns. If Opening is empty, it checks
	// one user message and a reply.
	Opening []data.Message
}

// ChatError reports a chat that a reward model's template cannot render.
type ChatError struct {
	Path   string // folder of the reward model
	Sample string // name of the chat's sample; "" for the check by NewRewardModel
	Roles  string // roles of the chat's messages, in order
	Err    error
}

// Error implements error.
func (e *ChatError) Error() string {
	subject := "a chat of " + e.Roles
	if e.Sample != "" {
		subject = "the chat of " + e.Sample
	}
	return fmt.Sprintf("reward model %s: %s: %v", e.Path, subject, e.Err)
}

// Unwrap returns the cause.
func (e *ChatError) Unwrap() error { return e.Err }

// NewRewardModel makes a reward model of a bundle and takes ownership of the bundle. The
// bundle must have been opened with model.Options.Classifier.
func NewRewardModel(ctx context.Context, b *model.Bundle, o RewardModelOptions) (*RewardModel, error) {
	r := &RewardModel{bundle: b, o: o}
	if r.o.Rows < 1 {
		return nil, fmt.Errorf("reward model: micro-batch of %d chats, want at least 1", o.Rows)
	}
	positions := b.Model.Config.MaxPositionEmbeddings
	if r.most = o.MaxTokens; r.most == 0 {
		r.most = positions
	}
	if r.most > positions {
		return nil, fmt.Errorf("reward model %s: a chat may have %[3]d tokens, but the model has only %[2]d positions (max_position_embeddings)", b.Path, positions, r.most)
	}
	if b.ChatTemplate() == "" {
		return nil, fmt.Errorf("reward model %s has no chat template: add chat_template to its tokenizer_config.json", b.Path)
	}
	var err error
	if r.template, err = chat.Parse(b.ChatTemplate()); err != nil {
		return nil, fmt.Errorf("reward model %s: its chat template: %w", b.Path, err)
	}
	user, reply := data.Message{Role: "user", Content: "Hello"}, data.Message{Role: "assistant", Content: "Hello"}
	trial := []data.Message{user, reply}
	if len(o.Opening) > 0 {
		trial = append(slices.Clone(o.Opening), reply, user, reply)
	}
	if _, err := r.encode("", trial); err != nil {
		return nil, err
	}
	return r, r.onDevice(ctx, func() error { return nil })
}

// onDevice calls f while the weights are on their device.
func (r *RewardModel) onDevice(ctx context.Context, f func() error) error {
	if !r.o.Offload {
		return f()
	}
	return WithModel(ctx, "the reward model", r.bundle.Model, f)
}

// encode renders a chat up to its last reply, in the tokens of the reward model.
func (r *RewardModel) encode(sample string, messages []data.Message) ([]int32, error) {
	fail := func(err error) error {
		roles := make([]string, len(messages))
		for i, m := range messages {
			roles[i] = m.Role
		}
		return &ChatError{r.bundle.Path, sample, strings.Join(roles, ", "), err}
	}
	if len(messages) == 0 {
		return nil, fail(errors.New("it has no messages"))
	}
	last := len(messages)
	for last > 0 && messages[last-1].Role != "assistant" { // skip observations after the last reply
		last--
	}
	if last == 0 {
		return nil, fail(errors.New("it has no reply"))
	}
	text, err := r.template.Render(chat.Input{
		Messages: messages[:last], Vars: r.bundle.TokenizerConfig.TemplateVars(), Now: func() time.Time { return chatDate },
	})
	if err != nil {
		return nil, fail(fmt.Errorf("the chat template failed: %w", err))
	}
	ids := r.bundle.Tokenizer.Encode(text, tokenizer.Options{})
	if len(ids) == 0 {
		return nil, fail(errors.New("the chat template wrote nothing"))
	}
	return ids, nil
}

// Lockstep reports whether the passes of the model are collectives, in which all ranks call Score.
func (r *RewardModel) Lockstep() bool { return r.bundle.Model.Lockstep() }

// Score scores the chats of samples. The extra metrics of a score are the number of
// tokens that the model read and whether the chat was truncated. If the model is sharded, all ranks call Score, each with its
// own samples or none; an error of one rank must then end the others.
func (r *RewardModel) Score(ctx context.Context, samples []reward.Sample) ([]reward.Score, error) {
	chats := make([][]int32, len(samples))
	scores := make([]reward.Score, len(samples))
	for i := range samples {
		ids, err := r.encode(samples[i].ID, samples[i].Messages)
		if err != nil {
			return nil, err
		}
		chats[i] = ids[:min(len(ids), r.most)]
		scores[i].Extra = map[string]float64{"tokens": float64(len(chats[i])), "truncated": 0}
		if len(ids) > r.most {
			scores[i].Extra["truncated"] = 1
		}
	}
	batches := slices.Collect(slices.Chunk(chats, r.o.Rows))
	passes, err := r.passes(ctx, len(batches))
	if err != nil || passes == 0 {
		return scores, err
	}
	at := 0
	err = r.onDevice(ctx, func() error {
		for i := range passes {
			idle := i >= len(batches)
			batch := [][]int32{{0}} // the scores of an idle pass are dropped
			if !idle {
				batch = batches[i]
			}
			got, err := r.bundle.Model.Scores(ctx, batch...)
			if err != nil {
				return fmt.Errorf("reward model %s: %w", r.bundle.Path, err)
			}
			if idle {
				continue
			}
			for _, x := range got {
				scores[at].Value = float64(x)
				at++
			}
		}
		return nil
	})
	return scores, err
}

// passes returns the number of forward passes for n batches. If the model is sharded, that is the largest number of all ranks,
// since the passes are collectives.
func (r *RewardModel) passes(ctx context.Context, n int) (int, error) {
	m := r.bundle.Model
	if !m.Lockstep() {
		return n, nil
	}
	g := m.Sharded().Group
	err := torch.Run(ctx, m.Thread(), func(s *torch.Scope) error {
		all := s.Empty(torch.Int64, g.Size())
		err := g.AllGather(ctx, all, s.Int64s([]int64{int64(n)}, 1))
		if err == nil {
			n = int(slices.Max(all.ToInt64s()))
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("exchange the number of chats: %w", err)
	}
	return n, nil
}

// Bytes returns the size of the weights.
func (r *RewardModel) Bytes() int64 { return int64(ModelBytes(r.bundle.Model)) }

// Close frees the weights.
func (r *RewardModel) Close() error {
	r.bundle.Close()
	return nil
}
