package learner

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

const chatML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// byteRenderer renders ChatML over a vocabulary of bytes.
func byteRenderer(t *testing.T) (*chat.Renderer, *tokenizer.Tokenizer) {
	t.Helper()
	tok, err := tokenizer.TrainBPE(nil, tinyVocab, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse(chatML)
	if err != nil {
		t.Fatal(err)
	}
	r, err := chat.NewRenderer(tmpl, tok, map[string]any{"eos_token": "<|im_end|>"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r, tok
}

func expertTasks() []data.Task {
	no := false
	return []data.Task{
		{ID: "maze_1", Conversation: []data.Message{
			{Role: "user", Content: "Find the goal."},
			{Role: "assistant", Content: "OK", Loss: &no},
			{Role: "user", Content: "You see a wall."},
			{Role: "assistant", Content: "Action: up"},
			{Role: "user", Content: "You see the goal."},
			{Role: "assistant", Content: "Action: down"},
		}},
		{ID: "maze_2", Conversation: []data.Message{
			{Role: "user", Content: "Go."},
			{Role: "assistant", Content: "left"},
			{Role: "user", Content: "Success"},
		}},
	}
}

// byHand renders a conversation in ChatML piece by piece. learn is true for the tokens in the loss: the replies and
// their end tokens.
func byHand(tok *tokenizer.Tokenizer, messages []data.Message) (ids []int32, learn []bool) {
	add := func(text string, l bool) {
		for _, id := range tok.Encode(text, tokenizer.Options{}) {
			ids, learn = append(ids, id), append(learn, l)
		}
	}
	for _, m := range messages {
		add("<|im_start|>"+m.Role+"\n", false)
		add(m.Content+"<|im_end|>", m.Role == "assistant" && (m.Loss == nil || *m.Loss))
		add("\n", false)
	}
	return ids, learn
}

// TestSFTLossIsTheMeanOverReplies checks that the SFT loss is the mean negative log-prob of the
// tokens of assistant messages and their end tokens, over all rows together, without messages
// marked loss: false in the data. The expected log-probs are computed token by token with the KV
// cache.
func TestSFTLossIsTheMeanOverReplies(t *testing.T) {
	r, tok := byteRenderer(t)
	tasks := expertTasks()
	rows, counts, err := SFTRows(tasks, r, 512, TruncateError)
	if err != nil {
		t.Fatal(err)
	}
	a := testActor(t, torch.Float32)
	sum, n := 0.0, 0
	for i, task := range tasks {
		ids, learn := byHand(tok, task.Conversation)
		if got := rows[i].Tokens; !slices.Equal(got, ids[:len(got)]) {
			t.Fatalf("row %d is %q, want %q", i, r.Decode(got), r.Decode(ids))
		}
		lp, err := a.Compute().DecodeLogProbs(t.Context(), 1, ids, 1)
		if err != nil {
			t.Fatal(err)
		}
		for j := 1; j < len(ids); j++ {
			if learn[j] {
				sum -= float64(lp[j-1])
				n++
			}
		}
	}
	// Three replies with their end tokens; "OK" is not one of them.
	if want := len("Action: up") + len("Action: down") + len("left") + 3; n != want || counts.LossTokens != want {
		t.Fatalf("%d tokens in the loss by hand and %d by SFTRows, want %d", n, counts.LossTokens, want)
	}
	for _, c := range splits {
		if c.micro.MaxTokens > 0 {
			c.micro.MaxTokens = 256 // a row of this test is longer than 64
		}
		st := gradientSFT(t, a, rows, c.micro)
		if want := sum / float64(n); math.Abs(st.Loss-want) > 1e-5*want || st.Tokens != n {
			t.Errorf("%s: loss %.7f over %d tokens, want %.7f over %d", c.name, st.Loss, st.Tokens, want, n)
		}
	}
}

// TestMicroBatchingDoesNotChangeSFT checks that the gradient of SFT does not depend on
// micro-batching.
func TestMicroBatchingDoesNotChangeSFT(t *testing.T) {
	var grad, updated map[string][]float32
	for _, c := range splits {
		a := testActor(t, torch.Float32)
		gradientSFT(t, a, trainRows(8), c.micro)
		g := gradients(t, a)
		stepOnce(t, a)
		w := weights(t, a)
		if grad == nil {
			grad, updated = g, w
			continue
		}
		sameTensors(t, c.name+": gradient", g, grad)
		sameTensors(t, c.name+": weight", w, updated)
	}
}

// TestLossSFT checks that the validation loss equals the training loss, packed or not, and
// that the computation of the validation loss changes no weights.
func TestLossSFT(t *testing.T) {
	a := testActor(t, torch.Float32)
	rows := trainRows(8)
	before := weights(t, a)
	want := math.NaN()
	for _, c := range splits {
		loss, tokens, err := a.LossSFT(t.Context(), rows, c.micro)
		if err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(want) {
			st := gradientSFT(t, a, rows, c.micro)
			if want = st.Loss; tokens != st.Tokens {
				t.Errorf("LossSFT counted %d tokens, want %d as in training", tokens, st.Tokens)
			}
		}
		if math.Abs(loss-want) > 1e-5*want {
			t.Errorf("%s: loss %.7f, want %.7f", c.name, loss, want)
		}
	}
	if rows[0].OldLogProbs[4] != trainRows(8)[0].OldLogProbs[4] {
		t.Error("LossSFT changed the rows")
	}
	sameTensors(t, "weights", weights(t, a), before)
	if _, _, err := a.LossSFT(t.Context(), trainRows(4)[3:], MicroBatching{}); err == nil {
		t.Error("the loss of rows without a token in the loss was computed")
	}
}

func TestSFTRowsRefuses(t *testing.T) {
	r, _ := byteRenderer(t)
	no := false
	withoutLoss := []data.Task{{ID: "maze_9", Conversation: []data.Message{{Role: "user", Content: "Go."}, {Role: "assistant", Content: "OK", Loss: &no}}}}
	for _, c := range []struct {
		name       string
		tasks      []data.Task
		limit      int
		truncation string
		want       string
	}{
		{"no conversation", []data.Task{{ID: "maze_3"}}, 512, TruncateError, "task maze_3 has no recorded conversation"},
		{"too long", expertTasks(), 64, TruncateError, "tokens, more than the 64 allowed"},
		{"all dropped", expertTasks()[:1], 64, TruncateDrop, "no conversation is left"},
		{"nothing to learn", withoutLoss, 512, TruncateError, "no conversation is left to train on: every reply has loss = false"},
		{"no reply", []data.Task{{ID: "maze_4", Conversation: []data.Message{{Role: "user", Content: "Go."}}}}, 512, TruncateError, "task maze_4: its conversation has no message of the assistant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := SFTRows(c.tasks, r, c.limit, c.truncation)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if long := c.limit == 64; errors.Is(err, ErrTooLong) != long { // only the cases with the limit 64 have too long a conversation
				t.Errorf("error %v: errors.Is(err, ErrTooLong) = %v, want %v", err, !long, long)
			}
		})
	}
}

// TestSFTRowsWithoutATokenToPredict checks that a row without a token to predict is excluded and
// counted: a row truncated on the left may start with its only reply token, which is not predicted.
func TestSFTRowsWithoutATokenToPredict(t *testing.T) {
	renderer, _ := byteRenderer(t)
	all, fullCounts, err := SFTRows(expertTasks()[:1], renderer, 512, TruncateError)
	must(t, err)
	last := len(all[0].Tokens) - 1
	for all[0].Mask[last] == 0 { // skip the tokens of the template after the last reply
		last--
	}
	limit := len(all[0].Tokens) - last
	for _, c := range []struct{ limit, rows, tokens int }{{limit, 0, 0}, {limit + 1, 1, 1}} {
		rows, counts, err := SFTRows(expertTasks()[:1], renderer, c.limit, TruncateLeft)
		if (err == nil) != (c.rows > 0) || len(rows) != c.rows || counts.Rows != c.rows || counts.Dropped != 1-c.rows || counts.LossTokens != c.tokens {
			t.Errorf("cut to %d of %d tokens: %d rows, counts %+v, error %v", c.limit, fullCounts.Tokens, len(rows), counts, err)
		}
	}
}
