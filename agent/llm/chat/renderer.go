package chat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
)

// Renderer turns conversations into token ids in appended form: ids once
// given stay, and a turn only adds what the template writes after the reply.
//
// For a conversation whose replies are encoded text, the appended form equals
// the ids of the whole conversation rendered by the template, with these
// differences, where the appended form wins:
//   - a template that rewrites earlier turns (Qwen3 drops old thinking and
//     puts an empty thinking block before a last reply without one) does so
//     only when asked for the whole; here, a turn stays as it was sampled;
//   - white space at the start of a reply is not merged into one token with
//     the newline before it, since the model was shown that newline alone;
//   - what the template writes after the last reply's end token is left out
//     until another message follows.
//
// A Renderer is immutable and may be used by many goroutines.
type Renderer struct {
	template *Template
	tok      *tokenizer.Tokenizer
	vars     map[string]any
	noon     time.Time // what the template's clock says
	end      int32     // the token that ends a reply
	stops    []int32
	trims    bool // the template trims replies
}

// Stand-ins for the messages before a delta. The template must write replies
// as they are, apart from trimming.
const (
	firstUser  = "QfirstuserQ"
	firstReply = "QfirstreplyQ"
	nextUser   = "QnextuserQ"
)

// NewRenderer learns how the template ends a reply. vars are variables of
// the template besides the messages: those of
// tokenizer.Config.TemplateVars, and others such as
// enable_thinking or date_string. stops are the ids that the model's own files
// name as ends of a reply (model.Bundle.EOSTokenIDs): a chat model may also end
// with the token that ended its texts before it learned to chat. The template's
// clock stands still at noon of day, so that a date in the prompts cannot change
// within a run.
func NewRenderer(t *Template, tok *tokenizer.Tokenizer, vars map[string]any, day time.Time, stops ...int32) (*Renderer, error) {
	noon := time.Date(day.Year(), day.Month(), day.Day(), 12, 0, 0, 0, day.Location())
	r := &Renderer{template: t, tok: tok, vars: maps.Clone(vars), noon: noon}
	text, err := r.render([]data.Message{
		{Role: "user", Content: firstUser}, {Role: "assistant", Content: " " + firstReply + " "}, {Role: "user", Content: nextUser},
	}, true)
	if err != nil {
		return nil, fmt.Errorf("a chat with two turns: %w", err)
	}
	_, after, found := strings.Cut(text, firstReply)
	between, _, foundNext := strings.Cut(after, nextUser)
	if !found || !foundNext {
		return nil, errors.New("the chat template does not write replies and the messages after them as they are")
	}
	rest, kept := strings.CutPrefix(between, " ")
	r.trims = !kept
	ids := tok.Encode(rest, tokenizer.Options{})
	if len(ids) == 0 || !isAdded(tok, ids[0]) {
		return nil, fmt.Errorf("the chat template does not end a reply with a token of its own, but with %.40q; a model could not learn to stop", rest)
	}
	r.end = ids[0]
	r.stops = []int32{r.end}
	if eos, ok := vars["eos_token"].(string); ok {
		id, ok := tok.TokenToID(eos)
		if !ok {
			return nil, fmt.Errorf("the eos_token %q is not in the tokenizer", eos)
		}
		stops = append([]int32{id}, stops...)
	}
	for _, id := range stops {
		if !slices.Contains(r.stops, id) {
			r.stops = append(r.stops, id)
		}
	}
	return r, nil
}

func isAdded(tok *tokenizer.Tokenizer, id int32) bool {
	for _, a := range tok.Added() {
		if a.ID == id {
			return true
		}
	}
	return false
}

func (r *Renderer) render(messages []data.Message, prompt bool) (string, error) {
	return r.template.Render(Input{
		Messages: messages, AddGenerationPrompt: prompt, Vars: r.vars, Now: func() time.Time { return r.noon },
	})
}

// Start renders the messages before the first reply and what asks for it.
func (r *Renderer) Start(messages []data.Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("start of a conversation: there are no messages")
	}
	text, err := r.render(messages, true)
	if err != nil {
		return nil, fmt.Errorf("start of a conversation: %w", err)
	}
	return r.tok.Encode(text, tokenizer.Options{}), nil
}

// Next renders what comes between a reply and the next one: the reply's end
// token unless it ended with that one, the messages, and what asks for a
// reply. stoppedByEOS says that the reply ended with a stop token, lastID.
func (r *Renderer) Next(stoppedByEOS bool, lastID int32, messages []data.Message) ([]int32, error) {
	ids, err := r.delta(messages, true)
	if err != nil {
		return nil, err
	}
	if stoppedByEOS && lastID == r.end {
		ids = ids[1:]
	}
	return ids, nil
}

// delta is what the template writes after a reply, its end token first.
func (r *Renderer) delta(messages []data.Message, prompt bool) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("next turn of a conversation: there are no messages")
	}
	for _, m := range messages {
		if m.Role == "assistant" {
			return nil, errors.New("next turn of a conversation: an assistant message is not an observation")
		}
	}
	base := []data.Message{{Role: "user", Content: firstUser}, {Role: "assistant", Content: firstReply}}
	text, err := r.render(append(base, messages...), prompt)
	if err != nil {
		return nil, fmt.Errorf("next turn of a conversation: %w", err)
	}
	_, after, found := strings.Cut(text, firstReply)
	ids := r.tok.Encode(after, tokenizer.Options{})
	if !found || len(ids) == 0 || ids[0] != r.end {
		return nil, errors.New("next turn of a conversation: the chat template rewrites the reply before these messages")
	}
	return ids, nil
}

// StopTokens are the ids that end a reply: the one the template writes after
// replies, the tokenizer's eos_token, and those that NewRenderer was given.
func (r *Renderer) StopTokens() []int32 { return append([]int32(nil), r.stops...) }

// Decode is the text of ids without special tokens.
func (r *Renderer) Decode(ids []int32) string { return r.tok.Decode(ids, true) }

// Trajectory renders a recorded conversation in appended form. mask is 1 on
// the tokens of replies and on their end tokens, where the data does not keep
// a reply out of the loss, and 0 everywhere else.
func (r *Renderer) Trajectory(messages []data.Message) (ids []int32, mask []uint8, err error) {
	add := func(more []int32, m uint8) {
		for _, id := range more {
			ids, mask = append(ids, id), append(mask, m)
		}
	}
	start := 0 // of the messages that are not rendered yet
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		if i == start {
			return nil, nil, fmt.Errorf("message %d: a reply without a message before it", i)
		}
		var before []int32
		if start == 0 {
			before, err = r.Start(messages[:i])
		} else {
			before, err = r.Next(true, r.end, messages[start:i])
		}
		if err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", i, err)
		}
		add(before, 0)
		content := m.Content
		if r.trims {
			content = strings.TrimFunc(content, isSpace)
		}
		learn := uint8(1)
		if m.Loss != nil && !*m.Loss {
			learn = 0
		}
		add(append(r.tok.Encode(content, tokenizer.Options{}), r.end), learn)
		start = i + 1
	}
	if start == 0 {
		return nil, nil, errors.New("the conversation has no reply")
	}
	if start < len(messages) {
		rest, err := r.delta(messages[start:], false)
		if err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", start, err)
		}
		add(rest[1:], 0)
	}
	return ids, mask, nil
}
