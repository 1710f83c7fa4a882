package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

// sqlServer implements sqlgym's protocol without the data of some tasks.
type sqlServer struct {
	*httptest.Server
	lacks func(task int) bool

	mu    sync.Mutex
	next  int
	task  map[string]int // current task of each instance
	tried map[int]int    // number of resets of each task
}

func newSQLServer(t *testing.T, lacks func(task int) bool) *sqlServer {
	s := &sqlServer{lacks: lacks, task: map[string]int{}, tried: map[int]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { env.CloseIdle(); s.Close() })
	return s
}

func (s *sqlServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var b struct {
		ItemID int         `json:"item_id"`
		EnvIdx json.Number `json:"env_idx"`
	}
	_ = json.Unmarshal(body, &b)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/":
		fmt.Fprint(w, `"ok"`)
	case "/create":
		fmt.Fprint(w, 1000+s.next%8)
		s.next++
	case "/reset":
		s.tried[b.ItemID]++
		if s.lacks(b.ItemID) {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		s.task[b.EnvIdx.String()] = b.ItemID
		fmt.Fprint(w, `["a question", null]`)
	case "/observation":
		fmt.Fprintf(w, `"question %d"`, s.task[r.URL.Query().Get("env_idx")])
	case "/step":
		fmt.Fprint(w, `{"state":"rows","reward":1.0,"done":true,"info":{}}`)
	default:
		http.NotFound(w, r)
	}
}

// sqlStage returns environments that play sqlgym on the servers.
func sqlStage(t *testing.T, log io.Writer, servers ...*sqlServer) map[string]Env {
	t.Helper()
	s := newStage(t, false)
	spec, err := env.Lookup("sqlgym")
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, x := range servers {
		urls = append(urls, x.URL)
	}
	pool, err := pool.New(spec, urls, pool.Options{
		Client: env.Options{Backoff: time.Microsecond}, ProbePause: time.Millisecond, ProbeMax: time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	e := s.envs["fake"]
	e.Pool, e.Setup.Spec = pool, spec
	return map[string]Env{"sqlgym": e}
}

func sqlTasks(n int) []data.Task {
	var out []data.Task
	for i := range n {
		out = append(out, data.Task{ID: fmt.Sprintf("sqlgym_%d", i), Env: "sqlgym", Index: i})
	}
	return out
}

// TestBadTask checks the handling of a task that no server can reset: the task is excluded after a
// few requests, one warning names the task, and no server is quarantined.
func TestBadTask(t *testing.T) {
	bad := []int{0, 3}
	lacks := func(task int) bool { return slices.Contains(bad, task) }
	for servers := 1; servers <= 2; servers++ {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			var all []*sqlServer
			for range servers {
				all = append(all, newSQLServer(t, lacks))
			}
			var log bytes.Buffer
			envs := sqlStage(t, &log, all...)
			eps, stats, err := RunEpisodes(t.Context(), envs, sqlTasks(6), Options{
				GroupSize: 8, Concurrency: 8, Replays: 10, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, ep := range eps {
				if ep.Outcome.Trainable() == lacks(ep.Task.Index) {
					t.Errorf("%s sample %d: %s %s", ep.Task.ID, ep.Sample, ep.Outcome, ep.Err)
				}
			}
			counts := envs["sqlgym"].Pool.Counts()
			if counts.Quarantines != 0 || counts.AllFaults() > int64(len(bad)*8*badAfter*env.DefaultAttempts) {
				t.Errorf("%d quarantines and %d faults, want no quarantine and a few faults", counts.Quarantines, counts.AllFaults())
			}
			if fmt.Sprint(stats.BadTasks) != "[sqlgym_0 sqlgym_3]" || stats.Failed != 16 {
				t.Errorf("stats %+v", stats)
			}
			for _, line := range []string{"task=sqlgym_0", "task=sqlgym_3"} {
				if text := log.String(); strings.Count(text, "task excluded") != 2 || !strings.Contains(text, line) || strings.Contains(text, "episode dropped") {
					t.Errorf("want one warning that names %s:\n%s", line, text)
				}
			}
		})
	}
}

// TestTaskOfOneServer checks the choice between two servers: each task is played on a server that
// can reset the task.
func TestTaskOfOneServer(t *testing.T) {
	lacking := newSQLServer(t, func(task int) bool { return task%2 == 0 })
	complete := newSQLServer(t, func(int) bool { return false })
	var log bytes.Buffer
	envs := sqlStage(t, &log, lacking, complete)
	eps, stats, err := RunEpisodes(t.Context(), envs, sqlTasks(6), Options{GroupSize: 4, Concurrency: 4, Replays: 10})
	if err != nil || len(stats.BadTasks) != 0 || stats.Failed != 0 {
		t.Fatalf("stats %+v, %v", stats, err)
	}
	for _, ep := range eps {
		if !ep.Outcome.Trainable() || ep.Task.Index%2 == 0 && ep.Server != complete.URL {
			t.Errorf("%s on %s: %s %s", ep.Task.ID, ep.Server, ep.Outcome, ep.Err)
		}
	}
	if counts := envs["sqlgym"].Pool.Counts(); counts.Quarantines != 0 {
		t.Errorf("%d quarantines, want none", counts.Quarantines)
	}
}

// TestAllTasksBad checks that a rollout in which every task is bad ends with an error if MaxFailed
// is above 0. With MaxFailed 0 it returns without an error, so the caller can play other tasks.
func TestAllTasksBad(t *testing.T) {
	for _, share := range []float64{0, .99} {
		var log bytes.Buffer
		envs := sqlStage(t, &log, newSQLServer(t, func(int) bool { return true }))
		_, stats, err := RunEpisodes(t.Context(), envs, sqlTasks(3), Options{GroupSize: 2, Concurrency: 4, Replays: 10, MaxFailed: share})
		if stats.Failed != 6 || len(stats.BadTasks) != 3 {
			t.Errorf("share %g: stats %+v", share, stats)
		}
		ended := err != nil && strings.Contains(err.Error(), "6 of 6 episodes failed") && strings.Contains(err.Error(), "is excluded")
		if want := share > 0; ended != want || err != nil && !want {
			t.Errorf("share %g: %v", share, err)
		}
	}
}
