package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/process"
)

// CrowdOptions describe a rollout without a model: Episodes concurrent maze
// episodes of Turns turns each, against Servers built-in servers.
type CrowdOptions struct {
	Episodes, Turns, Servers int
	Rounds                   int
}

// The bounds of the cost of playing many episodes, without the model and the servers.
const (
	mostTurnCPU = 0.5e-3 // seconds of CPU for a turn
	mostLeft    = 16 << 20
)

// Crowd is the cost of playing many episodes at once, without the model and the
// servers: the type parrot replaces the model and always gives the same reply, and the servers
// are separate processes.
type Crowd struct {
	Episodes int `json:"episodes"`
	Turns    int `json:"turns"` // turns of all episodes
	Servers  int `json:"servers"`

	Rounds []CrowdRound `json:"rounds"`
	Best   CrowdRound   `json:"best"` // the round with the least CPU time

	GoroutinesBefore int   `json:"goroutines_before"`
	GoroutinesAfter  int   `json:"goroutines_after"`
	BytesBefore      int64 `json:"bytes_before"` // heap and stacks in use
	BytesAfter       int64 `json:"bytes_after"`

	Cheap bool `json:"cheap"` // a turn takes less than mostTurnCPU
	Clean bool `json:"clean"` // no goroutines and little memory remain
}

// CrowdRound is one rollout.
type CrowdRound struct {
	Seconds  float64 `json:"seconds"`
	Episodes float64 `json:"episodes_per_s"`
	Turns    float64 `json:"turns_per_s"`
	TurnCPU  float64 `json:"cpu_s_per_turn"`

	Faults  map[string]int64 `json:"faults,omitempty"` // requests that failed without injected faults, as on a busy machine
	Replays int              `json:"replays"`          // instances replaced after these faults
}

// parrot is an engine and a renderer. It replies with the same move in every
// turn. Every byte is a token.
type parrot struct{}

// At the cell crowdStart the move in reply always runs into the wall, so that every
// episode has its full number of turns.
const (
	crowdStart = 0
	reply      = "Action: move up"
)

func (parrot) Open(_ context.Context, o engine.SessionOptions) (*engine.Session, error) {
	return engine.NewSession(o, nil), nil
}

func (parrot) Generate(context.Context, *engine.Session, []int32, engine.Params) (engine.Reply, error) {
	r := engine.Reply{Stop: engine.StopLength, LogProbs: make([]float32, len(reply))}
	for _, b := range []byte(reply) {
		r.IDs = append(r.IDs, int32(b))
	}
	return r, nil
}

func (parrot) Close(*engine.Session) {}

func (parrot) Start(messages []data.Message) ([]int32, error) {
	var ids []int32
	for _, m := range messages {
		for _, b := range []byte(m.Content) {
			ids = append(ids, int32(b))
		}
	}
	return append(ids, '\n'), nil
}

func (p parrot) Next(_ bool, _ int32, messages []data.Message) ([]int32, error) {
	return p.Start(messages)
}

func (parrot) StopTokens() []int32 { return nil }

func (parrot) Decode(ids []int32) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

func runCrowd(ctx context.Context, o *options, _ []string, log io.Writer) (result, error) {
	return measureCrowd(ctx, o.program, CrowdOptions{Episodes: 2000, Turns: 20, Servers: 8, Rounds: o.rounds}, log)
}

// measureCrowd starts the servers and plays the rounds.
func measureCrowd(ctx context.Context, program string, o CrowdOptions, log io.Writer) (*Crowd, error) {
	c := &Crowd{Episodes: o.Episodes, Servers: o.Servers}
	var urls []string
	for range o.Servers {
		server, err := startServer(ctx, nil, program, "env", "serve", "maze", "--port", "0")
		if err != nil {
			return nil, err
		}
		defer server.stop()
		urls = append(urls, server.URL)
	}
	// Play a few episodes first, so that lazily created state is not counted.
	few := o
	few.Episodes = min(o.Episodes, 4*o.Servers)
	if _, err := playCrowd(ctx, urls, few); err != nil {
		return nil, err
	}
	c.GoroutinesBefore, c.BytesBefore = settled(0)
	for round := range o.Rounds {
		r, err := playCrowd(ctx, urls, o)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "round %d: %.0f episodes/s, %.0f turns/s, %.3f ms of CPU a turn\n", round+1, r.Episodes, r.Turns, 1e3*r.TurnCPU)
		c.Rounds = append(c.Rounds, r)
	}
	c.GoroutinesAfter, c.BytesAfter = settled(c.GoroutinesBefore)
	c.Turns = o.Episodes * o.Turns
	c.judge()
	return c, nil
}

// judge computes the verdicts.
func (c *Crowd) judge() {
	c.Best = c.Rounds[0]
	for _, r := range c.Rounds {
		if r.TurnCPU < c.Best.TurnCPU {
			c.Best = r
		}
	}
	c.Cheap = c.Best.TurnCPU < mostTurnCPU
	c.Clean = c.GoroutinesAfter <= c.GoroutinesBefore && c.BytesAfter <= c.BytesBefore+mostLeft
}

// settleTime is the maximum time that settled waits. Goroutines of closed
// connections need a moment to end.
const settleTime = 20 * time.Second

// settled returns the number of goroutines and the memory in use. It waits until
// the number of goroutines is at most the argument wanted, or is stable if the argument is 0, but no
// longer than settleTime.
func settled(wanted int) (n int, bytes int64) {
	env.CloseIdle()
	last, same := 0, 0
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n = runtime.NumGoroutine()
		if same++; n != last {
			last, same = n, 0
		}
		if n <= wanted || wanted == 0 && same == 10 {
			break
		}
	}
	for range 2 { // pools free their contents after two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return n, int64(m.HeapAlloc + m.StackInuse)
}

// playCrowd plays one rollout in a new pool and returns its cost.
func playCrowd(ctx context.Context, urls []string, o CrowdOptions) (r CrowdRound, err error) {
	spec, err := env.Lookup("maze")
	if err != nil {
		return r, err
	}
	format, err := agent.Formats.Lookup(env.FormatReact)
	if err != nil {
		return r, err
	}
	pool, err := pool.New(spec, urls, pool.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, pool.Close(context.WithoutCancel(ctx))) }()
	tasks := make([]data.Task, o.Episodes)
	for i := range tasks {
		tasks[i] = data.Task{ID: fmt.Sprintf("maze_%d", i), Env: spec.Name, Index: crowdStart}
	}
	envs := map[string]rollout.Env{spec.Name: {Pool: pool, Setup: agent.Setup{
		Engine: parrot{}, Renderer: parrot{}, Format: format, Spec: spec,
		Options: agent.Options{MaxTurns: o.Turns, MaxNewTokens: len(reply), MaxContext: 1 << 16, Temperature: 1},
	}}}
	cpu := process.CPUTime()
	_, st, err := rollout.RunEpisodes(ctx, envs, tasks, rollout.Options{GroupSize: 1, Concurrency: o.Episodes, Seed: 1, Attempts: 3, Replays: 10})
	faults := pool.Counts().Faults
	if err != nil {
		return r, err
	}
	if want := o.Episodes * o.Turns; st.Failed > 0 || st.Turns != want {
		return r, fmt.Errorf("%d of %d episodes failed, %d turns were played instead of %d; failed requests: %s",
			st.Failed, o.Episodes, st.Turns, want, inOrder(faults))
	}
	seconds := st.Elapsed.Seconds()
	return CrowdRound{
		Seconds: seconds, Episodes: float64(o.Episodes) / seconds, Turns: float64(st.Turns) / seconds,
		TurnCPU: (process.CPUTime() - cpu).Seconds() / float64(st.Turns), Faults: faults, Replays: st.Replays + st.Retries,
	}, nil
}

func (c *Crowd) kept() bool { return c.Cheap && c.Clean }

func (c *Crowd) print(w io.Writer) error {
	fmt.Fprintf(w, "crowd: %d episodes at once on %d servers, %d turns in all, no model\n", c.Episodes, c.Servers, c.Turns)
	for i, r := range c.Rounds {
		fmt.Fprintf(w, "  round %d   %6.0f episodes/s   %7.0f turns/s   %.3f ms of CPU a turn outside the servers\n", i+1, r.Episodes, r.Turns, 1e3*r.TurnCPU)
		if len(r.Faults) > 0 {
			fmt.Fprintf(w, "             %d instances replaced; failed requests: %s\n", r.Replays, inOrder(r.Faults))
		}
	}
	fmt.Fprintf(w, "  at best %.3f ms a turn, less than %.1f ms wanted: %s\n", 1e3*c.Best.TurnCPU, 1e3*mostTurnCPU, verdict(c.Cheap))
	_, err := fmt.Fprintf(w, "  goroutines %d before, %d after; memory %.1f MB before, %.1f MB after (%.0f MB more allowed): %s\n",
		c.GoroutinesBefore, c.GoroutinesAfter, float64(c.BytesBefore)/1e6, float64(c.BytesAfter)/1e6, mostLeft/1e6, verdict(c.Clean))
	return err
}
