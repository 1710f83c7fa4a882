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

// Renderer turns conversations into token ids in appended form: a turn only
// appends ids, and ids once returned never change.
//
// For a conversation whose replies are encoded text, the appended form equals
// the ids of the whole conversation rendered by the template, except that
//   - a template may rewrite earlier turns when it renders them again (Qwen3
//     drops old thinking and puts an empty thinking block before a last reply
//     without one); in appended form a turn stays as it was sampled;
//   - white space at the start of a reply is not merged into one token with
//     the newline before it, because the model saw that newline alone;
//   - the template's text after the last reply's end token is omitted until
//     another message follows.
//
// A Renderer is immutable and may be used by many goroutines.
type Renderer struct {
	template *Template
	tok      *tokenizer.Tokenizer
	vars     map[string]any
	noon     time.Time // the template's clock
	end      int32     // the token that the template writes after a reply
	stops    []int32
	trims    bool // the template trims replies
}

// Placeholders for the messages before a turn. The template may trim replies, but
// must not change replies otherwise.
const (
	firstUser  = "QfirstuserQ"
	firstReply = "QfirstreplyQ"
	nextUser   = "QnextuserQ"
)

// NewRenderer returns a Renderer for a template and a tokenizer. It renders a
// probe conversation to find the token that the template writes after a reply.
// vars are the template's variables besides the messages: those of
// tokenizer.Config.TemplateVars, and others such as enable_thinking or
// date_string. stops are further ids that end a reply, from the model's own
// files (model.Bundle.EOSTokenIDs): a chat model may also end a reply with the
// token that ended texts in its pretraining. The template's clock always shows
// noon of day, so that a date in the prompts cannot change within a run.
func NewRenderer(t *Template, tok *tokenizer.Tokenizer, vars map[string]any, day time.Time, stops ...int32) (*Renderer, error) {
	noon := time.Date(day.Year(), day.Month(), day.Day(), 12, 0, 0, 0, day.Location())
	r := &Renderer{template: t, tok: tok, vars: maps.Clone(vars), noon: noon}
	text, err := r.render([]data.Message{
		{Role: "user", Content: firstUser}, {Role: "assistant", Content: " " + firstReply + " "}, {Role: "user", Content: nextUser},
	}, true)
	if err != nil {
		return nil, fmt.Errorf("render a chat with two turns: %w", err)
	}
	_, after, found := strings.Cut(text, firstReply)
	between, _, foundNext := strings.Cut(after, nextUser)
	if !found || !foundNext {
		return nil, errors.New("the chat template changes replies or the messages after them")
	}
	rest, kept := strings.CutPrefix(between, " ")
	r.trims = !kept
	ids := tok.Encode(rest, tokenizer.Options{})
	if len(ids) == 0 || !slices.ContainsFunc(tok.Added(), func(a tokenizer.AddedToken) bool { return a.ID == ids[0] }) {
		return nil, fmt.Errorf("the chat template ends a reply with %.40q, which is not a special token, so a model could not learn to stop", rest)
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

func (r *Renderer) render(messages []data.Message, prompt bool) (string, error) {
	return r.template.Render(Input{
		Messages: messages, AddGenerationPrompt: prompt, Vars: r.vars, Now: func() time.Time { return r.noon },
	})
}

// Start returns the ids of the messages before the first reply, with the
// generation prompt.
func (r *Renderer) Start(messages []data.Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("start of a conversation: no messages")
	}
	text, err := r.render(messages, true)
	if err != nil {
		return nil, fmt.Errorf("start of a conversation: %w", err)
	}
	return r.tok.Encode(text, tokenizer.Options{}), nil
}

// Next returns the ids between two replies: the end token (unless the first
// reply contains it), the messages and the generation prompt. If stoppedByEOS
// is true, the first reply ended with the stop token lastID.
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

// delta returns the ids that the template writes after a reply. The first one is
// the end token of the reply.
func (r *Renderer) delta(messages []data.Message, prompt bool) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("next turn of a conversation: no messages")
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

// StopTokens returns the ids that end a reply: the end token that the template
// writes, the tokenizer's eos_token and the stops of NewRenderer.
func (r *Renderer) StopTokens() []int32 { return slices.Clone(r.stops) }

// Stream returns a function that decodes ids one at a time, like Decode. Each
// call returns the text that its id completes.
func (r *Renderer) Stream() func(id int32) string { return r.tok.Stream(true).Next }

// Decode returns the text of ids without special tokens.
func (r *Renderer) Decode(ids []int32) string { return r.tok.Decode(ids, true) }

// Trajectory returns the ids of a recorded conversation in appended form. mask
// is 1 on the tokens of replies and on their end tokens, and 0 on other tokens
// and on replies whose message sets loss to false.
func (r *Renderer) Trajectory(messages []data.Message) (ids []int32, mask []uint8, err error) {
	add := func(more []int32, m uint8) {
		ids, mask = append(ids, more...), append(mask, slices.Repeat([]uint8{m}, len(more))...)
	}
	start := 0 // the first message that is not rendered yet
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
