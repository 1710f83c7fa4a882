package builtin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/pool"
)

// TestPlayThroughFaults checks that every episode ends on servers that lose one reply in ten in various ways, and that
// the servers receive no more steps than the clients sent.
func TestPlayThroughFaults(t *testing.T) {
	var arrived, sent atomic.Int64
	var urls []string
	for _, seed := range []string{"1", "2"} {
		faults, err := fault.Parse("500:0.03,503:0.02,truncate:0.03,reset:0.03,slow:1ms:0.1,seed=" + seed)
		if err != nil {
			t.Fatal(err)
		}
		h, err := builtin.New("maze", builtin.Options{Faults: faults})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/step") {
				arrived.Add(1)
			}
			h.ServeHTTP(w, r)
		}))
		defer srv.Close()
		urls = append(urls, srv.URL)
	}
	defer env.CloseIdle()
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	p, err := pool.New(spec, urls, pool.Options{
		Client: env.Options{Backoff: time.Millisecond}, ProbePause: time.Millisecond, ProbeMax: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	// episode plays game once and reports whether it finished.
	episode := func(game int) bool {
		l, err := p.Acquire(context.Background())
		if err != nil {
			t.Error(err)
			return true
		}
		if _, err := l.Client().Reset(context.Background(), game); err != nil {
			l.Fail(err)
			return false
		}
		for _, action := range builtin.MazeExpert(game) {
			sent.Add(1)
			r, err := l.Client().Step(context.Background(), action)
			if err != nil {
				if !env.ServerFault(err) {
					t.Errorf("game %d: %v", game, err)
				}
				l.Fail(err)
				return false
			}
			if r.Done && !spec.Success(r.Reward) {
				t.Errorf("game %d ended with %+v", game, r)
			}
		}
		l.Release()
		return true
	}
	var failed atomic.Int64
	var wg sync.WaitGroup
	for game := range builtin.MazeGames {
		wg.Go(func() {
			for !episode(game) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if failed.Load() == 0 {
		t.Error("no episode met a fault")
	}
	if arrived.Load() > sent.Load() {
		t.Errorf("the servers received %d steps, the clients sent %d", arrived.Load(), sent.Load())
	}
}
