package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env"
)

// sqlServer implements sqlgym as described by the protocol: it has eight instances, returns them again in order from
// the ninth create on, and serves one request at a time. The test fails if two requests overlap, or if the step of an
// instance does not belong to the question of its reset.
type sqlServer struct {
	t    *testing.T
	fail func(n int) bool // whether the server executes request n and replies 500

	mu      sync.Mutex
	n       int // requests
	busy    bool
	created int
	items   map[int]int // maps an instance to its question
}

const sqlInstances = 8

func (b *sqlServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		EnvIdx int    `json:"env_idx"`
		ItemID int    `json:"item_id"`
		Action string `json:"action"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // a create has no body
	if r.URL.Path == "/" {                    // a probe may overlap with other requests
		fmt.Fprint(w, `"ok"`)
		return
	}
	b.mu.Lock()
	if b.busy {
		b.t.Error("two concurrent requests")
	}
	b.busy = true
	b.n++
	n := b.n
	b.mu.Unlock()
	time.Sleep(200 * time.Microsecond) // a concurrent request would arrive during this pause and fail the test
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
	reply := ""
	switch r.URL.Path {
	case "/create":
		reply = fmt.Sprint(7000 + b.created%sqlInstances*11)
		b.created++
	case "/reset":
		b.items[body.EnvIdx] = body.ItemID
		reply = `["question", null]`
	case "/observation":
		reply = `"question"`
	case "/step":
		if want := fmt.Sprintf("SELECT %d", b.items[body.EnvIdx]); body.Action != want {
			b.t.Errorf("instance %d received the step %q, want %q", body.EnvIdx, body.Action, want)
		}
		reply = `{"state":"[]","reward":0.0,"done":true,"info":{}}`
	}
	if b.fail != nil && b.fail(n) {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, reply)
}

// TestFullServerSharesNoInstance checks that sixteen concurrent episodes on one sqlgym server never share an instance,
// even if replies are lost, instances are dropped, and the server is quarantined and returns.
func TestFullServerSharesNoInstance(t *testing.T) {
	for name, fail := range map[string]func(int) bool{
		"healthy": nil,
		"failing": func(n int) bool { return n%7 == 3 || n%50 > 44 },
	} {
		t.Run(name, func(t *testing.T) {
			b := &sqlServer{t: t, fail: fail, items: map[int]int{}}
			srv := httptest.NewServer(b)
			defer srv.Close()
			defer env.CloseIdle()
			spec, err := env.Lookup("sqlgym")
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(spec, []string{srv.URL}, Options{
				Client: env.Options{Backoff: time.Microsecond}, ProbePause: time.Millisecond, ProbeMax: 5 * time.Millisecond, QuarantineAfter: 3,
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.MaxLeases() != sqlInstances {
				t.Errorf("%d leases at most", p.MaxLeases())
			}
			var mu sync.Mutex
			inUse := map[string]bool{}
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					for i := range 6 {
						l, err := p.Acquire(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						id := l.Client().(leased).Client.(interface{ ServerID() string }).ServerID()
						mu.Lock()
						if inUse[id] || len(inUse) >= sqlInstances {
							t.Errorf("instance %s is leased twice or beyond the limit, leased instances %v", id, inUse)
						}
						inUse[id] = true
						mu.Unlock()
						item := 100*g + i
						_, err = l.Client().Reset(context.Background(), item)
						if err == nil {
							_, err = l.Client().Step(context.Background(), fmt.Sprintf("```sql\nSELECT %d\n```", item))
						}
						mu.Lock()
						delete(inUse, id)
						mu.Unlock()
						if err != nil {
							l.Fail(err)
						} else {
							l.Release()
						}
					}
				})
			}
			wg.Wait()
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
			c := p.Counts()
			if name == "failing" && (b.created <= sqlInstances || c.Quarantines == 0 || c.Faults["http_500"] == 0) {
				t.Errorf("%d instances were created, counts %+v; the test needs more instances, a quarantine and a fault", b.created, c)
			}
			if name == "healthy" && (b.created != sqlInstances || len(c.Faults) != 0 || c.Instances != sqlInstances) {
				t.Errorf("%d instances were created, counts %+v; want eight instances and no fault", b.created, c)
			}
		})
	}
}

// TestOnlySharedInstances checks that the pool returns an error and shares no instance if a server only returns
// instances that are in use.
func TestOnlySharedInstances(t *testing.T) {
	b := &sqlServer{t: t, items: map[int]int{}}
	srv := httptest.NewServer(b)
	defer srv.Close()
	defer env.CloseIdle()
	spec, err := env.Lookup("sqlgym")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(spec, []string{srv.URL}, Options{MaxPerServer: sqlInstances + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	var held []*Lease
	for range sqlInstances {
		held = append(held, acquire(t, p))
	}
	_, err = p.Acquire(context.Background())
	if err == nil || !strings.Contains(err.Error(), "env.max_instances") || !strings.Contains(err.Error(), srv.URL) {
		t.Errorf("got %v", err)
	}
	for i, l := range held { // the pool must not treat the server as restarted
		_, err := l.Client().Reset(context.Background(), i)
		if err == nil {
			_, err = l.Client().Step(context.Background(), fmt.Sprintf("```sql\nSELECT %d\n```", i))
		}
		if err != nil {
			t.Error(err)
		}
		l.Release()
	}
}
