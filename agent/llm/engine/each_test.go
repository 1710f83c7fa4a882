package engine

import (
	"context"
	"errors"
	"testing"
)

// TestEach checks that tokens arrive while the reply is being sampled, with the
// candidates of the backend, and that none arrives after a cancelled Generate.
func TestEach(t *testing.T) {
	f := newFake(256, 16)
	steps := make(chan struct{})
	f.before = func(batch []Work) error {
		if batch[0].Top != 2 {
			return errors.New("the batch asks for another number of candidates")
		}
		<-steps
		return nil
	}
	s := start(t, f, Options{})
	session := mustOpen(t, s, SessionOptions{})
	tokens := make(chan Token, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Generate(ctx, session, []int32{1, 2}, Params{MaxNew: 10, Temperature: 1, Top: 2, Each: func(t Token) { tokens <- t }})
		ended <- err
	}()
	for i := range 3 {
		steps <- struct{}{}
		if got := <-tokens; len(got.Top) != 2 || got.Top[0].ID != got.ID {
			t.Errorf("token %d is %+v, want two candidates", i, got)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Generate returned %v, want the error of the context", err)
	}
	close(steps)
	s.Shutdown()
	if len(tokens) > 0 {
		t.Errorf("%d tokens arrived after Generate returned", len(tokens))
	}
}
