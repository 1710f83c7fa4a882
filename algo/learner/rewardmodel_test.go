package learner

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/shard"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// tinyReward makes a reward model with random weights, the same at every call.
func tinyReward(t *testing.T, template string) *model.Bundle {
	t.Helper()
	th, err := torch.NewThread(torchtest.Device(t))
	must(t, err)
	t.Cleanup(th.Close)
	c := tinyConfig()
	c.Labels = 1
	m, err := model.New(t.Context(), th, c, 21, torch.Float32)
	must(t, err)
	t.Cleanup(m.Close)
	tok, err := tokenizer.TrainBPE(nil, tinyVocab, []string{"<|im_start|>", "<|im_end|>"})
	must(t, err)
	return &model.Bundle{
		Model: m, Tokenizer: tok, Path: "my-reward-model",
		TokenizerConfig: tokenizer.Config{EOS: "<|im_end|>", Pad: "<|im_end|>", ChatTemplate: template},
	}
}

// conversation returns messages of the user and the assistant in turn.
func conversation(texts ...string) []data.Message {
	var list []data.Message
	for i, text := range texts {
		list = append(list, data.Message{Role: [2]string{"user", "assistant"}[i%2], Content: text})
	}
	return list
}

// TestRewardModel checks that a chat is rendered by the reward model's template, up to the last
// reply, and truncated to the model's maximal length. The score of a chat does not depend on its batch.
func TestRewardModel(t *testing.T) {
	b := tinyReward(t, chatML)
	samples := []reward.Sample{
		{ID: "one turn", Messages: conversation("Where?", "Up.")},
		{ID: "two turns", Messages: conversation("Where?", "Up.", "A wall.", "Then left, and left again.")},
		{ID: "an observation at the end", Messages: conversation("Where?", "Up.", "A wall.")},
		{ID: "long", Messages: conversation(strings.Repeat("Where? ", 20), "Up.")},
	}
	const most = 60
	written := "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nUp.<|im_end|>\n"
	want, err := b.Model.Scores(t.Context(), b.Tokenizer.Encode(written, tokenizer.Options{}))
	must(t, err)
	var first []reward.Score
	for _, rows := range []int{8, 1, 3} {
		r, err := NewRewardModel(t.Context(), b, RewardModelOptions{Rows: rows, MaxTokens: most})
		must(t, err)
		got, err := r.Score(t.Context(), samples)
		must(t, err)
		if first == nil {
			first = got
		}
		if len(got) != len(samples) {
			t.Fatalf("%d scores, want %d", len(got), len(samples))
		}
		for i := range got {
			if d := math.Abs(got[i].Value - first[i].Value); !(d < 1e-5) || math.IsNaN(got[i].Value) {
				t.Errorf("%s: the score is %v with %d chats per pass, want %v as with 8", samples[i].ID, got[i].Value, rows, first[i].Value)
			}
		}
	}
	if d := math.Abs(first[0].Value - float64(want[0])); !(d < 1e-5) {
		t.Errorf("the score is %v, want %v", first[0].Value, want[0])
	}
	if d := math.Abs(first[2].Value - first[0].Value); !(d < 1e-5) || math.Abs(first[1].Value-first[0].Value) < 1e-3 {
		t.Errorf("scores: one turn %v, with an observation after it %v (want the same), two turns %v (want another)", first[0].Value, first[2].Value, first[1].Value)
	}
	for i, cut := range []float64{0, 1, 0, 1} {
		if x := first[i].Extra; x["truncated"] != cut || cut == 1 && x["tokens"] != most || !(x["tokens"] > 10) {
			t.Errorf("%s: the extra metrics are %v", samples[i].ID, x)
		}
	}
}

func TestRewardModelRefuses(t *testing.T) {
	picky := "{% for m in messages %}{% if m['content'] == 'no' %}{{ raise_exception('No is no answer') }}{% endif %}{{ m['content'] }}{% endfor %}"
	noSystem := "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{{ m['content'] }}{% endfor %}"
	opening := []data.Message{{Role: "system", Content: "Play."}, {Role: "user", Content: "start"}}
	for _, c := range []struct {
		name, template string
		o              RewardModelOptions
		words          string
	}{
		{"no template", "", RewardModelOptions{Rows: 1}, "no chat template"},
		{"no Jinja", "{% for %}", RewardModelOptions{Rows: 1}, "its chat template: "},
		{"a template that fails", "{{ raise_exception('Never') }}", RewardModelOptions{Rows: 1}, "a chat of user, assistant: "},
		{"a template without system messages", noSystem, RewardModelOptions{Rows: 1, Opening: opening}, `a chat of system, user, assistant, user, assistant`},
		{"a template that writes nothing", "{# nothing #}", RewardModelOptions{Rows: 1}, "wrote nothing"},
		{"too few positions", chatML, RewardModelOptions{Rows: 1, MaxTokens: 513}, "512 positions"},
		{"no chats in a pass", chatML, RewardModelOptions{}, "0 chats"},
	} {
		if _, err := NewRewardModel(t.Context(), tinyReward(t, c.template), c.o); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.words)
		}
	}
	r, err := NewRewardModel(t.Context(), tinyReward(t, picky), RewardModelOptions{Rows: 1})
	must(t, err)
	for id, messages := range map[string][]data.Message{"no answer": conversation("Where?", "no"), "no reply": conversation("Where?"), "no chat": nil} {
		_, err := r.Score(t.Context(), []reward.Sample{{ID: id, Messages: messages}})
		var chat *ChatError
		if !errors.As(err, &chat) || chat.Sample != id || !strings.Contains(err.Error(), "my-reward-model") {
			t.Errorf("error %v, want a ChatError of sample %s", err, id)
		}
	}
}

// TestRewardModelOpening checks that templates that require a system message or write the date work
// with the run's chats, and give the same chat on every day.
func TestRewardModelOpening(t *testing.T) {
	wants := "{% if messages[0]['role'] != 'system' %}{{ raise_exception('Who am I?') }}{% endif %}{{ strftime_now('%d %b %Y') }}" +
		"{% for m in messages %}{{ m['content'] }}{% endfor %}"
	if _, err := NewRewardModel(t.Context(), tinyReward(t, wants), RewardModelOptions{Rows: 1}); err == nil {
		t.Error("a template that requires a system message was accepted without one")
	}
	b := tinyReward(t, wants)
	chat := []data.Message{{Role: "system", Content: "Play."}, {Role: "user", Content: "start"}, {Role: "assistant", Content: "Up."}}
	r, err := NewRewardModel(t.Context(), b, RewardModelOptions{Rows: 1, Opening: chat[:2]})
	must(t, err)
	got, err := r.encode("x", chat)
	must(t, err)
	if d := cmp.Diff(b.Tokenizer.Encode("01 Jan 2025Play.startUp.", tokenizer.Options{}), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestShardedRewardModel checks that ranks with different numbers of chats, also none, get the scores of a reward model that is
// not sharded.
func TestShardedRewardModel(t *testing.T) {
	var samples []reward.Sample
	for i := range 5 {
		samples = append(samples, reward.Sample{ID: "chat", Messages: conversation("Where?", strings.Repeat("Up. ", i+1))})
	}
	score := func(b *model.Bundle, samples []reward.Sample) []reward.Score {
		r, err := NewRewardModel(t.Context(), b, RewardModelOptions{Rows: 2})
		must(t, err)
		got, err := r.Score(t.Context(), samples)
		must(t, err)
		return got
	}
	want := score(tinyReward(t, chatML), samples)
	onRanks(t, 3, func(rank int, g *dist.Group) {
		b := tinyReward(t, chatML)
		whole := b.Model.Bytes()
		must(t, b.Model.Shard(t.Context(), shard.Options{Group: g, Level: shard.Weights, Compute: torch.Float32, Frozen: true}))
		if n := b.Model.Bytes(); !near(float64(n), float64(whole)/3) {
			t.Errorf("rank %d has %d of %d bytes", rank, n, whole)
		}
		first, end := []int{0, 5, 1}[rank], []int{5, 5, 2}[rank]
		got := score(b, samples[first:end])
		for i, s := range got {
			if w := want[first+i]; math.Abs(s.Value-w.Value) > 1e-5 || s.Extra["tokens"] != w.Extra["tokens"] {
				t.Errorf("rank %d: chat %d has the score %+v, want %+v", rank, first+i, s, w)
			}
		}
		if len(got) != end-first || b.Model.Bytes() > whole/2 {
			t.Errorf("rank %d: %d scores, %d bytes afterwards", rank, len(got), b.Model.Bytes())
		}
	})
}
