package learner

// A reward model as a score function: a sequence classifier of one label reads
// the chat of an episode up to its last reply, in its own chat template and
// tokens, and its output at the last token is the score.
//
// Source: RewardModelWorker of verl before 0.8 (_switch_chat_template, compute_rm_score).
// As there, the template writes the special tokens and the tokenizer adds none,
// and of a chat that is too long the first tokens are kept: the score is then
// that of a chat that breaks off, which the number "truncated" tells of.
//
// Differs from verl in: the whole conversation is rendered, turn by turn, where
// verl gives it one reply behind the prompt; the head has no bias, as the
// sequence classifiers that are published have none (verl opens them as token
// classifiers, with one).

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
)

// chatDate is the day that templates are told which write the date. It is
// fixed: a chat is worth the same whenever it is scored, also by a run that is
// resumed on another day.
var chatDate = time.Date(2025, time.January, 1, 12, 0, 0, 0, time.UTC)

// RewardModel is a reward.Scorer.
type RewardModel struct {
	bundle   *model.Bundle
	template *chat.Template
	most     int // tokens of a chat
	o        RewardModelOptions
}

// RewardModelOptions say how a reward model is used.
type RewardModelOptions struct {
	Rows      int // chats in a forward pass
	MaxTokens int // of a chat, from its beginning; 0: as many as the model has positions
	// Offload keeps the weights in host memory but while they score.
	Offload bool
	// Opening are messages as the run's chats begin with: the template has to
	// be able to write them, and turns after them, before anything is played.
	// Empty: one message of the user and a reply are tried.
	Opening []data.Message
}

// ChatError reports a chat that a reward model's template cannot write.
type ChatError struct {
	Path   string // of the reward model
	Sample string // "" for the chat that is tried first
	Roles  string // of that chat, in their order
	Err    error
}

// Error names the model and the chat.
func (e *ChatError) Error() string {
	what := "a chat of " + e.Roles
	if e.Sample != "" {
		what = "the chat of " + e.Sample
	}
	return fmt.Sprintf("reward model %s: %s: %v", e.Path, what, e.Err)
}

// Unwrap returns the cause.
func (e *ChatError) Unwrap() error { return e.Err }

// NewRewardModel takes ownership of a bundle that was opened with
// model.Options.Classifier.
func NewRewardModel(ctx context.Context, b *model.Bundle, o RewardModelOptions) (*RewardModel, error) {
	r := &RewardModel{bundle: b, o: o}
	if r.o.Rows < 1 {
		return nil, fmt.Errorf("reward model: %d chats in a forward pass, want at least 1", o.Rows)
	}
	positions := b.Model.Config.MaxPositionEmbeddings
	if r.most = o.MaxTokens; r.most == 0 {
		r.most = positions
	}
	if r.most > positions {
		return nil, fmt.Errorf("reward model %s: it has %d positions (max_position_embeddings), fewer than the %d tokens that a chat may have", b.Path, positions, r.most)
	}
	if b.ChatTemplate() == "" {
		return nil, fmt.Errorf("reward model %s: it has no chat template (chat_template in tokenizer_config.json), so it is not known how it wants a chat written", b.Path)
	}
	var err error
	if r.template, err = chat.Parse(b.ChatTemplate()); err != nil {
		return nil, fmt.Errorf("reward model %s: its chat template: %w", b.Path, err)
	}
	asked, said := data.Message{Role: "user", Content: "Hello"}, data.Message{Role: "assistant", Content: "Hello"}
	trial := []data.Message{asked, said}
	if len(o.Opening) > 0 {
		trial = append(slices.Clone(o.Opening), said, asked, said)
	}
	if _, err := r.encode("", trial); err != nil {
		return nil, err
	}
	back, err := r.fetch(ctx)
	if err == nil {
		err = back()
	}
	return r, err
}

// fetch brings the weights to their device; back returns them.
func (r *RewardModel) fetch(ctx context.Context) (back func() error, err error) {
	if !r.o.Offload {
		return func() error { return nil }, nil
	}
	return FetchModel(ctx, "the reward model", r.bundle.Model)
}

// encode is a chat in the model's own tokens.
func (r *RewardModel) encode(sample string, messages []data.Message) ([]int32, error) {
	fail := func(err error) error {
		roles := make([]string, len(messages))
		for i, m := range messages {
			roles[i] = m.Role
		}
		return &ChatError{r.bundle.Path, sample, strings.Join(roles, ", "), err}
	}
	if len(messages) == 0 {
		return nil, fail(errors.New("its prompt is not known, so there is no chat to score"))
	}
	last := len(messages)
	for last > 0 && messages[last-1].Role != "assistant" { // an observation that nothing was said to
		last--
	}
	if last == 0 {
		return nil, fail(errors.New("it has no reply"))
	}
	text, err := r.template.Render(chat.Input{
		Messages: messages[:last], Vars: r.bundle.TokenizerConfig.TemplateVars(), Now: func() time.Time { return chatDate },
	})
	if err != nil {
		return nil, fail(fmt.Errorf("its template cannot write it: %w", err))
	}
	ids := r.bundle.Tokenizer.Encode(text, tokenizer.Options{})
	if len(ids) == 0 {
		return nil, fail(errors.New("its template writes nothing"))
	}
	return ids, nil
}

// Score scores chats. Each brings how many tokens the model read, and whether
// they were all.
func (r *RewardModel) Score(ctx context.Context, samples []reward.Sample) (scores []reward.Score, err error) {
	chats := make([][]int32, len(samples))
	scores = make([]reward.Score, len(samples))
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
	if len(samples) == 0 {
		return scores, nil
	}
	back, err := r.fetch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, back()) }()
	at := 0
	for batch := range slices.Chunk(chats, r.o.Rows) {
		got, err := r.bundle.Model.Scores(ctx, batch...)
		if err != nil {
			return nil, fmt.Errorf("reward model %s: %w", r.bundle.Path, err)
		}
		for _, x := range got {
			scores[at].Value = float64(x)
			at++
		}
	}
	return scores, nil
}

// Bytes is what its weights take, wherever they are.
func (r *RewardModel) Bytes() int64 { return int64(ModelBytes(r.bundle.Model)) }

// Close frees the weights.
func (r *RewardModel) Close() error {
	r.bundle.Close()
	return nil
}
