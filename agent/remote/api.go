package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"time"

	"github.com/openmanus/openmanus/agent/llm/serve"
	"github.com/openmanus/openmanus/data"
)

// Register adds the endpoints of episodes to h.
func (s *Store) Register(h *serve.Handler) {
	h.Handle("GET /v1/episodes/{id}", s.get)
	h.Handle("DELETE /v1/episodes/{id}", s.remove)
	h.Handle("POST /v1/episodes/{id}/reward", s.postReward)
}

// view is the form of an episode in replies.
type view struct {
	ID      string  `json:"id"`
	Status  status  `json:"status"`
	Reason  string  `json:"reason,omitempty"` // why it was dropped
	Task    string  `json:"task"`
	Group   string  `json:"group"`
	Sample  int     `json:"sample"`
	Turns   int     `json:"turns"`
	Parts   int     `json:"contexts"`
	Tokens  int     `json:"tokens"`
	Sampled int     `json:"sampled_tokens"`
	Reward  float64 `json:"reward"`
	Success bool    `json:"success"`
}

// view returns the state of an episode. The caller has locked s.mu.
func (e *episode) view() view {
	v := e.counts
	for _, c := range e.contexts {
		v.add(c)
	}
	v.ID, v.Status, v.Reason, v.Task, v.Group, v.Sample, v.Turns = e.id, e.status, e.reason, e.task.ID, e.group.uid, e.sample, e.turns
	v.Reward, v.Success = e.reward, e.success
	return v
}

// add counts the tokens of a context.
func (v *view) add(c *record) {
	if len(c.turns) > 0 {
		v.Parts++
		v.Tokens += len(c.ids)
		v.Sampled += bytes.Count(c.mask, []byte{1})
	}
}

// forget releases the contexts of an episode and keeps their counts.
func (e *episode) forget() {
	for _, c := range e.contexts {
		e.counts.add(c)
	}
	e.contexts, e.newest, e.result = nil, nil, nil
}

// find returns the episode of a request. The caller has locked s.mu.
func (s *Store) find(r *http.Request) (*episode, error) {
	e := s.episodes[r.PathValue("id")]
	if e == nil {
		return nil, &serve.Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "episode_not_found",
			Message: fmt.Sprintf("no request had the header %s: %s since the program started", serve.SessionHeader, r.PathValue("id"))}
	}
	return e, nil
}

func (s *Store) get(w http.ResponseWriter, r *http.Request) error {
	return s.answer(w, r, func(*episode) error { return nil })
}

// remove drops an episode.
func (s *Store) remove(w http.ResponseWriter, r *http.Request) error {
	return s.answer(w, r, func(e *episode) error {
		if e.status == running {
			s.drop(e, "the agent dropped it")
		}
		return nil
	})
}

// answer applies change, under s.mu, to the episode that a request names, and sends its state.
func (s *Store) answer(w http.ResponseWriter, r *http.Request, change func(*episode) error) error {
	s.mu.Lock()
	e, err := s.find(r)
	var v view
	if err == nil {
		err = change(e)
		v = e.view()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	serve.WriteJSON(w, http.StatusOK, v)
	return nil
}

// maxReward bounds the size in bytes of the body of a reward.
const maxReward = 64 << 10

// postReward rewards the newest turn of an episode and, unless done is false, ends the
// episode. A reward replaces an earlier one of the same turn, so that a request may be repeated.
func (s *Store) postReward(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Reward  *float64 `json:"reward"`
		Done    *bool    `json:"done"`
		Success *bool    `json:"success"`
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &serve.Error{Status: http.StatusUnsupportedMediaType, Type: "invalid_request_error", Message: "the Content-Type must be application/json"}
	}
	d := json.NewDecoder(io.LimitReader(r.Body, maxReward))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return serve.Invalid("", "the body must be an object with reward (a number), done and success (true or false): %s", serve.JSONFault(err))
	}
	done := body.Done == nil || *body.Done
	switch {
	case body.Reward == nil || math.IsNaN(*body.Reward) || math.IsInf(*body.Reward, 0):
		return serve.Invalid("reward", "reward must be a number")
	case body.Success != nil && !done:
		return serve.Invalid("success", "success is the result of a whole episode: it needs done = true")
	}
	return s.answer(w, r, func(e *episode) error { return s.reward(e, *body.Reward, done, body.Success) })
}

// reward rewards the newest turn of an episode. success nil means a positive reward. The
// caller has locked s.mu.
func (s *Store) reward(e *episode, reward float64, done bool, success *bool) error {
	conflict := func(format string, args ...any) error {
		return &serve.Error{Status: http.StatusConflict, Type: "invalid_request_error", Code: "conflict", Final: true, Message: fmt.Sprintf(format, args...)}
	}
	won := reward > 0
	if success != nil {
		won = *success
	}
	switch {
	case e.status != running && done && e.reward == reward && e.success == won && e.status != droppedStatus:
		return nil // a repeated request
	case e.status != running:
		return gone("the episode has ended and does not change: %s", e.ending())
	case e.newest == nil:
		return conflict("the episode has no reply to reward")
	case done && e.replying > 0:
		return conflict("%d replies of the episode are being generated", e.replying)
	}
	e.touched = time.Now()
	e.reward = reward
	t := &e.newest.turns[len(e.newest.turns)-1]
	t.Reward = reward
	if !done {
		return nil
	}
	e.success = won
	t.Done = true
	s.observeTurn(e, t)
	outcome := data.Done
	if won {
		outcome = data.Success
	}
	e.status, e.result = finished, s.assemble(e, outcome)
	s.retire(e)
	s.count(e)
	return nil
}

// count adds a finished episode to its step. The caller has locked s.mu.
func (s *Store) count(e *episode) {
	st := s.step
	if st == nil {
		return // the step was broken off
	}
	st.finished++
	st.touched = time.Now()
	ep := e.result
	st.stats.Done++
	st.stats.Turns += len(ep.Turns)
	st.stats.Tokens += len(ep.Tokens)
	st.stats.SampledTokens += ep.SampledTokens()
	if ep.Outcome == data.Success {
		st.stats.Success++
	}
	s.observeEnd(st, e, ep)
	if st.o.OnProgress != nil {
		st.o.OnProgress(st.stats.Progress)
	}
	if st.finished == st.groups*st.o.GroupSize {
		st.end()
	}
}
