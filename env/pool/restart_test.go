package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env"
)

// restartServer is a server that can be restarted. It numbers its instances from 0, prepares task 0 when it creates an
// instance, as textcraft, the tool servers and searchqa do, and names the played task in its texts. As a
// transport it refuses the next requests; their number is in the field refusals.
type restartServer struct {
	*httptest.Server
	refusals atomic.Int64
	bare     bool          // ids and first texts are bare values, not objects
	hold     chan struct{} // steps wait until hold is closed; nil: they do not wait
	stepping chan struct{} // receives a value for every step

	mu    sync.Mutex
	tasks []int // task of each instance
}

func newRestartServer(t *testing.T, bare bool) *restartServer {
	ph := &restartServer{bare: bare, stepping: make(chan struct{}, 100)}
	ph.Server = httptest.NewServer(ph)
	t.Cleanup(func() { env.CloseIdle(); ph.Close() })
	return ph
}

func (ph *restartServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has no body
	number := func(keys ...string) int {
		for _, k := range keys {
			if n, ok := body[k].(float64); ok {
				return int(n)
			}
		}
		return -1
	}
	if r.URL.Path == "/step" {
		ph.stepping <- struct{}{}
		if ph.hold != nil {
			<-ph.hold
		}
	}
	ph.mu.Lock()
	defer ph.mu.Unlock()
	object := func(id int, text string) string {
		if ph.bare {
			return fmt.Sprintf("%q", text)
		}
		return fmt.Sprintf(`{"id":%d,"observation":%q,"reward":0,"done":false}`, id, text)
	}
	id := number("env_idx", "id")
	switch r.URL.Path {
	case "/":
		fmt.Fprint(w, `"ok"`)
	case "/create":
		ph.tasks = append(ph.tasks, 0)
		id = len(ph.tasks) - 1
		if ph.bare {
			fmt.Fprint(w, id)
		} else {
			fmt.Fprint(w, object(id, "task 0"))
		}
	case "/observation":
		fmt.Fprint(w, `"the task"`)
	case "/reset", "/step":
		if id < 0 || id >= len(ph.tasks) {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		if r.URL.Path == "/step" {
			fmt.Fprintf(w, `{"observation":"task %d","reward":0,"done":false,"info":null}`, ph.tasks[id])
			return
		}
		ph.tasks[id] = number("data_idx")
		if ph.bare {
			ph.tasks[id] = number("id")
		}
		fmt.Fprint(w, object(id, "the task"))
	default:
		fmt.Fprint(w, "true")
	}
}

// restart removes all instances.
func (ph *restartServer) restart() {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.tasks = nil
}

func (ph *restartServer) instances() int {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	return len(ph.tasks)
}

// RoundTrip makes restartServer the client's transport, which can refuse connections.
func (ph *restartServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if ph.refusals.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return env.Options{}.HTTPClient().Transport.RoundTrip(r)
}

func (ph *restartServer) pool(t *testing.T, name string) *Pool {
	t.Helper()
	spec, err := env.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(spec, []string{ph.URL}, Options{
		Client:     env.Options{Client: &http.Client{Transport: ph}, Backoff: time.Microsecond},
		ProbePause: time.Millisecond, ProbeMax: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// at leases an instance and resets it to a task.
func (ph *restartServer) at(t *testing.T, p *Pool, task int) *Lease {
	t.Helper()
	l := acquire(t, p)
	if _, err := l.Client().Reset(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	plays(t, l, task)
	return l
}

func plays(t *testing.T, l *Lease, task int) {
	t.Helper()
	if res, err := l.Client().Step(context.Background(), "Action: look"); err != nil || res.Observation != fmt.Sprintf("task %d", task) {
		t.Errorf("an episode of task %d received %q, %v", task, res.Observation, err)
	}
}

func isLost(t *testing.T, l *Lease) {
	t.Helper()
	if res, err := l.Client().Step(context.Background(), "Action: look"); !errors.Is(err, env.ErrRestarted) {
		t.Errorf("an episode from before the restart received %q, %v", res.Observation, err)
	}
	l.Fail(env.ErrRestarted)
}

// TestUnseenRestart checks that an episode never continues with the task of another episode after an unnoticed restart
// of the server.
func TestUnseenRestart(t *testing.T) {
	for name, bare := range map[string]bool{"textcraft": false, "weather": true, "academia": true, "searchqa": true} {
		t.Run(name, func(t *testing.T) {
			t.Run("an id is used again", func(t *testing.T) {
				ph := newRestartServer(t, bare)
				p := ph.pool(t, name)
				a, b := ph.at(t, p, 5), ph.at(t, p, 6)
				ph.at(t, p, 9).Release() // task 9 leaves a free instance, which the restart removes
				ph.restart()
				b.Fail(errors.New("unexpected reply"))
				// The free instance does not exist on the restarted server.
				spare := acquire(t, p)
				spare.Fail(errors.New("no such id"))
				c := ph.at(t, p, 7)
				isLost(t, a)
				plays(t, c, 7)
				if n := ph.instances(); n != 1 {
					t.Errorf("%d instances on the new server, want one", n)
				}
				c.Release()
				if l := acquire(t, p); l.slot != c.slot {
					t.Error("the new instance is not reused")
				}
				if got := p.Counts(); got.Quarantines != 0 {
					t.Errorf("a server that answers was taken out of service: counts %+v", got)
				}
			})
			t.Run("a connection is refused", func(t *testing.T) {
				ph := newRestartServer(t, bare)
				p := ph.pool(t, name)
				a, b := ph.at(t, p, 5), ph.at(t, p, 6)
				ph.restart()
				ph.refusals.Store(1)
				_, err := b.Client().Step(context.Background(), "Action: look")
				var e *env.Error
				if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &e) || e.Retryable() {
					t.Errorf("refused: %v", err)
				}
				b.Fail(err)
				c := ph.at(t, p, 7)
				isLost(t, a)
				plays(t, c, 7)
			})
			t.Run("a probe is refused", func(t *testing.T) {
				ph := newRestartServer(t, bare)
				p := ph.pool(t, name)
				a, b := ph.at(t, p, 5), ph.at(t, p, 6)
				ph.restart()
				ph.refusals.Store(2)
				quarantine(p, b)
				c := ph.at(t, p, 7)
				isLost(t, a)
				plays(t, c, 7)
			})
		})
	}
}

// TestRefusedStepIsNotSentToTheNextServer checks that a step is not sent again after a refused connection, since
// another process may answer on the port.
func TestRefusedStepIsNotSentToTheNextServer(t *testing.T) {
	ph := newRestartServer(t, false)
	p := ph.pool(t, "textcraft")
	a := ph.at(t, p, 5)
	ph.restart()
	resp, err := http.Post(ph.URL+"/create", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	steps := len(ph.stepping)
	ph.refusals.Store(1)
	if res, err := a.Client().Step(context.Background(), "Action: look"); err == nil {
		t.Errorf("the episode of task 5 received %q", res.Observation)
	}
	if n := len(ph.stepping); n != steps {
		t.Errorf("%d steps reached the new server", n-steps)
	}
}

// TestReplyOfTheTimeOfARestart checks that a reply is discarded if it arrives after the pool has detected a restart.
func TestReplyOfTheTimeOfARestart(t *testing.T) {
	ph := newRestartServer(t, false)
	p := ph.pool(t, "textcraft")
	a := ph.at(t, p, 5)
	for len(ph.stepping) > 0 {
		<-ph.stepping
	}
	ph.hold = make(chan struct{})
	result := make(chan error, 1)
	go func() {
		_, err := a.Client().Step(context.Background(), "Action: look")
		result <- err
	}()
	<-ph.stepping
	ph.restart()
	acquire(t, p).Release()
	close(ph.hold)
	var e *env.Error
	if err := <-result; !errors.Is(err, env.ErrRestarted) || !errors.As(err, &e) || !e.Sent {
		t.Errorf("the episode received %v", err)
	}
}

// TestIDsCountedWithoutALock checks that two concurrent creates with the same id do not count as a restart. A server
// that numbers its instances without a lock may return such ids.
func TestIDsCountedWithoutALock(t *testing.T) {
	var mu sync.Mutex
	made := 0
	two := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/create" {
			fmt.Fprint(w, `{"observation":"","reward":0,"done":false}`)
			return
		}
		mu.Lock()
		n := made
		made++
		if made == 3 { // the second and the third create are concurrent
			close(two)
		}
		mu.Unlock()
		switch n {
		case 1, 2:
			<-two
			n = 1
		}
		fmt.Fprintf(w, `{"id":%d}`, n)
	}))
	defer srv.Close()
	defer env.CloseIdle()
	p := newPool(t, Options{}, srv.URL)
	old := acquire(t, p)
	leases := make([]*Lease, 2)
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			l, err := p.Acquire(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			leases[i] = l
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if leases[0].slot.id == leases[1].slot.id {
		t.Errorf("both leases have instance %s", leases[0].slot.id)
	}
	for _, l := range append(leases, old) {
		if _, err := l.Client().Step(context.Background(), ""); err != nil {
			t.Error(err)
		}
		l.Release()
	}
}
