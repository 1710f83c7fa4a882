package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/listen/listentest"
	"github.com/openmanus/openmanus/env/supervise"
)

// guide is an engine and a renderer that solves the maze. Every byte is a token. It calls onTurn every turn.
type guide struct {
	onTurn func(n int64)
	turns  *atomic.Int64
}

func (guide) Open(_ context.Context, o engine.SessionOptions) (*engine.Session, error) {
	return engine.NewSession(o, nil), nil
}

func (g guide) Generate(_ context.Context, s *engine.Session, _ []int32, p engine.Params) (engine.Reply, error) {
	g.onTurn(g.turns.Add(1))
	var game int
	if _, err := fmt.Sscanf(s.Options().Key.Task, "maze_%d", &game); err != nil {
		return engine.Reply{}, err
	}
	r := engine.Reply{Stop: engine.StopLength}
	for _, b := range []byte("Action: " + builtin.MazeExpert(game)[p.Turn]) {
		r.IDs, r.LogProbs = append(r.IDs, int32(b)), append(r.LogProbs, -1)
	}
	return r, nil
}

func (guide) Close(*engine.Session) {}

func (guide) Start(messages []data.Message) ([]int32, error) {
	var ids []int32
	for _, m := range messages {
		for _, b := range []byte(m.Content) {
			ids = append(ids, int32(b))
		}
	}
	return append(ids, '\n'), nil
}

func (g guide) Next(_ bool, _ int32, messages []data.Message) ([]int32, error) {
	return g.Start(messages)
}

func (guide) StopTokens() []int32 { return nil }

func (guide) Decode(ids []int32) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

// TestKilledServers kills and stops servers at random while episodes are played. It checks that no episode is lost and
// that no process remains.
func TestKilledServers(t *testing.T) {
	dir := t.TempDir()
	python := fakeCheckout(t, dir, "gym")
	ts := newTestState(t)
	ts.Dir = dir
	const servers = 4
	e := run.Schema.DefaultEnv("maze")
	e.Launch, e.Checkout, e.Python, e.NumServers, e.BasePort = true, "gym", python, servers, listentest.Ports(t, servers)
	e.HangTimeoutS, e.TimeoutS, e.Retries, e.WaitHealthyS = 5, 60, 5, 300
	w, err := run.OpenWorld(t.Context(), &ts.Host, e, run.WorldOptions{Logs: "servers"})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	format, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	var signalled atomic.Int64
	g := guide{turns: &atomic.Int64{}, onTurn: func(n int64) {
		if n%60 != 0 {
			return
		}
		signal := syscall.SIGKILL
		if n == 180 {
			signal = syscall.SIGSTOP // the server accepts connections but does not reply
		}
		for _, pid := range serverPIDs(t, e.BasePort+rand.New(rand.NewPCG(1, uint64(n))).IntN(servers)) {
			if syscall.Kill(pid, signal) == nil {
				signalled.Add(1)
			}
		}
	}}
	var tasks []data.Task
	for i := range builtin.MazeGames {
		tasks = append(tasks, data.Task{ID: fmt.Sprintf("maze_%d", i), Env: "maze", Index: i})
	}
	envs := map[string]rollout.Env{"maze": {Pool: w.Pool, Setup: agent.Setup{
		Engine: g, Renderer: g, Format: format, Spec: w.Spec,
		Options: agent.Options{MaxTurns: 60, MaxNewTokens: 50, MaxContext: 1 << 16, Temperature: 1},
	}}}
	episodes, stats, err := rollout.RunEpisodes(t.Context(), envs, tasks, rollout.Options{
		GroupSize: 2, Concurrency: 12, Attempts: 20, Replays: 20, Log: ts.Log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, ts.err)
	}
	for _, ep := range episodes {
		if want := len(builtin.MazeExpert(ep.Task.Index)); ep.Outcome != data.Success || len(ep.Turns) != want {
			t.Errorf("%s: got outcome %s after %d turns, want success after %d turns; error: %s", ep.Task.ID, ep.Outcome, len(ep.Turns), want, ep.Err)
		}
	}
	counts := w.Pool.Counts()
	if signalled.Load() == 0 || stats.Replays+stats.Retries == 0 || counts.Quarantines == 0 {
		t.Errorf("too few signals, failures or restarts: %d signals, statistics %+v, servers %+v", signalled.Load(), stats, counts)
	}
	closed = true
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for i := range servers {
		if left := serverPIDs(t, e.BasePort+i); len(left) > 0 {
			t.Errorf("server %d still runs: %v", i, left)
		}
	}
	for _, pid := range watchdogs(t) {
		t.Errorf("watchdog %d still runs", pid)
	}
	env.CloseIdle()
}

// watchdogs returns the running watchdogs that this process started.
func watchdogs(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		var pid, parent int
		var state string
		command, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(command), "\x00"+supervise.WatchdogCommand+"\x00") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		if err != nil {
			continue // the process ended
		}
		text := string(stat)
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &parent); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(text, &pid); err != nil {
			t.Fatal(err)
		}
		if parent == os.Getpid() && state != "Z" {
			found = append(found, pid)
		}
	}
	return found
}
