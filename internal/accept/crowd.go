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

// CrowdOptions are a rollout without a model: Episodes maze episodes at once,
// each of Turns turns, against Servers built-in servers.
type CrowdOptions struct {
	Episodes, Turns, Servers int
	Rounds                   int
}

// What the pool of episodes may cost beside model and servers.
const (
	mostTurnCPU = 0.5e-3 // seconds of CPU for a turn
	mostLeft    = 16 << 20
)

// Crowd is what playing many episodes at once takes: everything but the model,
// whose place a stand-in takes that always says the same, and the servers,
// which are processes of their own.
type Crowd struct {
	Episodes int `json:"episodes"`
	Turns    int `json:"turns"` // of all of them
	Servers  int `json:"servers"`

	Rounds []CrowdRound `json:"rounds"`
	Best   CrowdRound   `json:"best"` // the one with the least CPU time

	GoroutinesBefore int   `json:"goroutines_before"`
	GoroutinesAfter  int   `json:"goroutines_after"`
	BytesBefore      int64 `json:"bytes_before"` // heap and stacks in use
	BytesAfter       int64 `json:"bytes_after"`

	Cheap bool `json:"cheap"` // a turn takes less than mostTurnCPU
	Clean bool `json:"clean"` // nothing was left behind
}

// CrowdRound is one rollout.
type CrowdRound struct {
	Seconds  float64 `json:"seconds"`
	Episodes float64 `json:"episodes_per_s"`
	Turns    float64 `json:"turns_per_s"`
	TurnCPU  float64 `json:"cpu_s_per_turn"`

	Faults  map[string]int64 `json:"faults,omitempty"` // requests that went wrong on their own: a busy machine's
	Replays int              `json:"replays"`          // instances lost by that
}

// parrot says the same move in every turn. It is an engine and a renderer in
// which every byte is a token.
type parrot struct{}

// From the cell crowdStart, reply runs into the wall again and again: every
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

// measureCrowd starts the servers and plays.
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
	// A few beforehand, so that what is made once is there when it is counted.
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

// judge fills in what follows from the numbers.
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

// settleTime is how long what is ending may take: connections that close have
// goroutines that end a moment later.
const settleTime = 20 * time.Second

// settled gives the goroutines and the memory in use when there are no more
// goroutines than wanted or, with wanted 0, when their number stays; in any
// case after settleTime.
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
	for range 2 { // what pools keep of one collection ends with the next
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return n, int64(m.HeapAlloc + m.StackInuse)
}

// playCrowd is one rollout in a pool of its own, and what it took.
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
		return r, fmt.Errorf("%d of %d episodes failed, %d turns were played instead of %d; requests that went wrong: %s",
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
			fmt.Fprintf(w, "             %d instances replaced; requests that went wrong: %s\n", r.Replays, inOrder(r.Faults))
		}
	}
	fmt.Fprintf(w, "  at best %.3f ms a turn, less than %.1f ms wanted: %s\n", 1e3*c.Best.TurnCPU, 1e3*mostTurnCPU, verdict(c.Cheap))
	_, err := fmt.Fprintf(w, "  goroutines %d before, %d after; memory %.1f MB before, %.1f MB after (%.0f MB more allowed): %s\n",
		c.GoroutinesBefore, c.GoroutinesAfter, float64(c.BytesBefore)/1e6, float64(c.BytesAfter)/1e6, mostLeft/1e6, verdict(c.Clean))
	return err
}
