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

// server is a score function behind an address. A redirect is an answer that
// is not wanted, and it never gets the samples.
type server struct {
	url    string
	most   int
	client *http.Client
}

func newServer(url string, o Options) *server {
	way := http.DefaultTransport.(*http.Transport).Clone()
	return &server{url: url, most: o.MaxReply, client: &http.Client{
		Transport:     transport.Bound(way),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *server) repeats() bool { return false } // a connection knows what it answers

func (s *server) ask(ctx context.Context, _ int, body []byte) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(s.most)+1))
	switch {
	case err != nil:
		return nil, &Error{Kind: KindCrashed, Err: fmt.Errorf("the reply is cut: %w", err)}
	case len(text) > s.most:
		return nil, &Error{Kind: KindReply, Err: fmt.Errorf("a reply of more than %d bytes", s.most)}
	case resp.StatusCode >= 300 && resp.StatusCode < 500:
		return nil, &Error{Kind: KindReply, Err: fmt.Errorf("status %s: %s", resp.Status, shown(text))}
	case resp.StatusCode != http.StatusOK:
		return nil, &Error{Kind: KindStatus, Err: fmt.Errorf("%s: %s", resp.Status, shown(text))}
	case len(text) == 0:
		return nil, &Error{Kind: KindReply, Err: errors.New("an empty reply")}
	}
	return text, nil
}

func (s *server) close() error {
	s.client.CloseIdleConnections()
	return nil
}
