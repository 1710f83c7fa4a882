package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// stream sends the choices as server-sent events while they are generated. An error before
// the first token is returned; a later one is sent as an event, which ends the stream.
func (h *Handler) stream(ctx context.Context, w http.ResponseWriter, r *request, d dialect, e envelope, choices []*choice, news <-chan struct{}) error {
	events := &events{w: w, c: http.NewResponseController(w)}
	open := len(choices)
	finished := make([]bool, len(choices))
	ends := make(chan struct{}, len(choices))
	for _, c := range choices {
		go func() { // ends with the choice, for which the caller waits
			<-c.done
			ends <- struct{}{}
		}()
	}
	for open > 0 {
		select {
		case <-news:
		case <-ends:
		}
		for i, c := range choices {
			if finished[i] {
				continue
			}
			finished[i] = c.ended()
			if finished[i] {
				open--
				if c.err != nil {
					return events.fail(failure(ctx, c.err))
				}
			}
			if err := h.sendPart(events, r, d, e, c, finished[i]); err != nil {
				return err
			}
		}
	}
	if r.usage {
		u := usageOf(r, choices)
		e.Usage, e.Choices, e.Fingerprint = &u, []any{}, fingerprint(choices[0].reply.Version)
		if err := events.send(e); err != nil {
			return err
		}
	}
	return events.end()
}

// sendPart sends the part of a choice since the last one, if there is anything to send.
func (h *Handler) sendPart(events *events, r *request, d dialect, e envelope, c *choice, finished bool) error {
	p := c.next(finished)
	if len(p.tokens) == 0 && !finished || p.text == "" && !finished && !r.logprobs && !r.ids && c.begun {
		return nil // the text is held back
	}
	e.Choices, e.Fingerprint = []any{d.choice(h, r, c, p, true)}, fingerprint(h.o.Version())
	if r.ids && r.messages != nil && !c.begun {
		e.PromptIDs = c.prompt
	}
	c.begun = true
	return events.send(e)
}

// events writes server-sent events.
type events struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool
}

// send sends v as the data of an event.
func (s *events) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(b)
}

func (s *events) write(data []byte) error {
	// A writer without deadlines or buffers, as in tests, needs neither.
	_ = s.c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.w.Write(append(append([]byte("data: "), data...), "\n\n"...)); err != nil {
		return errLeft
	}
	_ = s.c.Flush()
	return nil
}

// fail reports an error: as the reply if nothing was sent, else as the last event.
func (s *events) fail(err error) error {
	if !s.begun {
		return err
	}
	if err := s.send(asError(err)); err != nil {
		return err
	}
	return errLeft
}

// end sends the last event.
func (s *events) end() error { return s.write([]byte("[DONE]")) }
