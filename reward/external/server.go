package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/openmanus/openmanus/data/transport"
)

// server is a score function behind an HTTP address. A redirect is an error and is
// not followed, so no other host receives the samples.
type server struct {
	url      string
	maxReply int
	client   *http.Client
}

func newServer(url string, o Options) *server {
	base := http.DefaultTransport.(*http.Transport).Clone()
	return &server{url: url, maxReply: o.MaxReply, client: &http.Client{
		Transport:     transport.Bound(base),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *server) call(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, &Error{Kind: KindUnreachable, Err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(s.maxReply)+1))
	switch {
	case err != nil:
		return nil, &Error{Kind: KindCrashed, Err: fmt.Errorf("the reply is incomplete: %w", err)}
	case len(text) > s.maxReply:
		return nil, &Error{Kind: KindReply, Err: fmt.Errorf("the reply has more than %d bytes", s.maxReply)}
	case resp.StatusCode >= 300 && resp.StatusCode < 500:
		return nil, &Error{Kind: KindReply, Err: fmt.Errorf("status %s: %s", resp.Status, shown(text))}
	case resp.StatusCode != http.StatusOK:
		return nil, &Error{Kind: KindStatus, Err: fmt.Errorf("%s: %s", resp.Status, shown(text))}
	case len(text) == 0:
		return nil, &Error{Kind: KindReply, Err: errors.New("the reply is empty")}
	}
	return text, nil
}

func (s *server) close() error {
	s.client.CloseIdleConnections()
	return nil
}
