package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
)

// envelope is a reply of the API, or a part of a stream.
type envelope struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	Model       string  `json:"model"`
	Fingerprint string  `json:"system_fingerprint"`
	Choices     []any   `json:"choices"`
	Usage       *usage  `json:"usage"`
	PromptIDs   []int32 `json:"prompt_token_ids,omitempty"` // of a chat completion
}

// usage counts tokens. The stop token counts as a token of the reply.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// A dialect is the form of the choices in chat or text completions.
type dialect interface {
	// object returns the name of the envelope.
	object(stream bool) string
	// prefix returns the beginning of the ids of replies.
	prefix() string
	// choice returns the whole of a choice, or with stream a part of it.
	choice(h *Handler, r *request, c *choice, p part, stream bool) any
}

// respond answers a request.
func (h *Handler) respond(w http.ResponseWriter, req *http.Request, r *request, d dialect) error {
	ctx, cancel := h.limited(req.Context())
	defer cancel()
	if err := h.prepare(r); err != nil {
		return err
	}
	if r.session == "" { // Sessions limits its own requests
		leave, err := h.enter(ctx, len(r.prompts)*r.n)
		if err != nil {
			return err
		}
		defer leave()
	}
	began := time.Now()
	h.counts.running.Add(1)
	defer h.counts.running.Add(-1)
	choices, news, wait := h.start(ctx, r)
	defer wait()
	defer cancel() // before wait, if the reply ends early
	e := envelope{
		ID: d.prefix() + "-" + rand.Text(), Object: d.object(r.stream), Created: began.Unix(), Model: h.o.Names[0],
	}
	if r.model != "" {
		e.Model = r.model
	}
	var err error
	if r.stream {
		err = h.stream(ctx, w, r, d, e, choices, news)
	} else {
		wait()
		err = h.whole(ctx, w, r, d, e, choices)
	}
	if err == nil {
		u := usageOf(r, choices)
		h.counts.done.Add(1)
		h.counts.sampled.Add(int64(u.Completion))
		h.counts.prompted.Add(int64(u.Prompt))
		h.o.Log.Debug("request", "path", req.URL.Path, "session", r.session, "prompt_tokens", u.Prompt, "tokens", u.Completion, "seconds", time.Since(began).Seconds())
	}
	return err
}

// prepare encodes the prompt of a chat without a session, and checks the length of prompts.
func (h *Handler) prepare(r *request) error {
	if r.session != "" {
		if r.n > 1 || len(r.prompts) > 1 {
			return Invalid("n", "a request with the header %s has one prompt and one reply", SessionHeader)
		}
		return nil
	}
	if r.messages != nil {
		ids, err := h.o.Renderer.Start(r.messages)
		if err != nil {
			return Invalid("messages", "%v", err)
		}
		r.prompts = [][]int32{ids}
	}
	for _, ids := range r.prompts {
		if err := CheckLength(h.o.MaxContext, len(ids), r.maxNew); err != nil {
			return err
		}
	}
	return nil
}

// whole sends the choices, all of which have ended, as one reply.
func (h *Handler) whole(ctx context.Context, w http.ResponseWriter, r *request, d dialect, e envelope, choices []*choice) error {
	for _, c := range choices {
		if c.err != nil {
			return failure(ctx, c.err)
		}
		e.Choices = append(e.Choices, d.choice(h, r, c, c.next(true), false))
	}
	u := usageOf(r, choices)
	e.Usage, e.Fingerprint = &u, fingerprint(choices[0].reply.Version)
	if r.ids && r.messages != nil {
		e.PromptIDs = choices[0].prompt
	}
	WriteJSON(w, http.StatusOK, e)
	return nil
}

// usageOf counts a prompt once for all of its replies.
func usageOf(r *request, choices []*choice) usage {
	var u usage
	for _, c := range choices {
		if c.index%r.n == 0 {
			u.Prompt += len(c.prompt)
		}
		u.Completion += c.sent
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// fingerprint names the weights that generated a reply.
func fingerprint(version int64) string { return fmt.Sprintf("weights-%d", version) }

// tokenIDs returns the ids of tokens.
func tokenIDs(tokens []engine.Token) []int32 {
	ids := make([]int32, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
	}
	return ids
}
