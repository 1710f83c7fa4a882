package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeModel is a backend whose next token is a hash of the context and the draw's
// key. It records the shape of every batch.
type fakeModel struct {
	mu     sync.Mutex
	kv     map[engine.SeqID][]int32
	shapes []string
	fail   func(engine.Work) bool
}

const idEnd = 26 // smaller ids are the letters a to z

func (f *fakeModel) Capacity() int  { return 1 << 16 }
func (f *fakeModel) BlockSize() int { return 16 }
func (f *fakeModel) Version() int64 { return 3 }

func (f *fakeModel) Drop(seq engine.SeqID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kv, seq)
}

func (*fakeModel) Release(context.Context) error { return nil }
func (*fakeModel) Reserve(context.Context) error { return nil }

func (f *fakeModel) Step(_ context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]engine.Sampled, len(batch))
	shape := ""
	for i, w := range batch {
		if f.fail != nil && f.fail(w) {
			return nil, errors.New("the model broke")
		}
		kv := f.kv[w.Seq]
		if w.From != 0 {
			kv = f.kv[w.From]
		}
		f.kv[w.Seq] = append(slices.Clone(kv[:w.Pos]), w.Tokens...)
		h := w.Draw.Seed ^ w.Draw.Task
		for _, id := range f.kv[w.Seq] {
			h = engine.Mix(h ^ uint64(id))
		}
		h = engine.Mix(h ^ uint64(w.Draw.Position)<<32 ^ uint64(w.Draw.Turn))
		out[i] = engine.Sampled{Token: int32(h % (idEnd + 1)), LogProb: -1}
		shape += fmt.Sprintf("%x.%d:%d+%d ", w.Draw.Task%4096, w.Draw.Sample, w.Pos, len(w.Tokens))
	}
	f.shapes = append(f.shapes, shape)
	return out, nil
}

type fakeRenderer struct{}

func (fakeRenderer) Start(messages []data.Message) ([]int32, error) {
	ids := []int32{100}
	for _, m := range messages {
		for _, b := range []byte(m.Content) {
			ids = append(ids, int32(b))
		}
	}
	return append(ids, 101), nil
}

func (r fakeRenderer) Next(_ bool, _ int32, messages []data.Message) ([]int32, error) {
	return r.Start(messages)
}

func (fakeRenderer) StopTokens() []int32 { return []int32{idEnd} }

func (fakeRenderer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte('a' + byte(id))
	}
	return b.String()
}

// fakeWorld creates and counts environment instances whose observations are a
// function of their actions.
type fakeWorld struct {
	step  func(ctx context.Context, index, step int) error // injects faults and delays
	reset func(index int) error
	// first, if set, returns the first observation on a server.
	first func(server string, index int) string

	mu      sync.Mutex
	created int
	closed  int
	inUse   int
	most    int // largest number of instances in use at once
	faults  []string
}

type fakeInstance struct {
	world  *fakeWorld
	server string
	record env.Recorder
	n      int
	index  int
	steps  int
	busy   bool
}

func (w *fakeWorld) spec() env.Spec {
	return env.Spec{
		Name:          "fake",
		SuccessReward: 0.5,
		Instruction:   func(string) string { return "play" },
		New: func(_ context.Context, o env.Options) (env.Client, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.created++
			c := &fakeInstance{world: w, server: o.BaseURL, record: o.Record, n: w.created}
			c.record(data.Exchange{Path: "/create", Body: fmt.Sprint(c.n)})
			return c, nil
		},
	}
}

func (c *fakeInstance) enter() {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.busy {
		c.world.faults = append(c.world.faults, "two calls of one instance at once")
	}
	c.busy = true
	c.world.inUse++
	c.world.most = max(c.world.most, c.world.inUse)
}

func (c *fakeInstance) leave() {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.busy = false
	c.world.inUse--
}

func (c *fakeInstance) Reset(_ context.Context, index int) (env.Obs, error) {
	c.enter()
	defer c.leave()
	c.index, c.steps = index, 0
	c.record(data.Exchange{Path: "/reset", Body: fmt.Sprint(index)})
	if c.world.reset != nil {
		if err := c.world.reset(index); err != nil {
			return env.Obs{}, err
		}
	}
	if c.world.first != nil {
		return env.Obs{Text: c.world.first(c.server, index)}, nil
	}
	return env.Obs{Text: fmt.Sprintf("task %d", index)}, nil
}

func (c *fakeInstance) Step(ctx context.Context, text string) (env.StepResult, error) {
	c.enter()
	defer c.leave()
	c.steps++
	c.record(data.Exchange{Path: "/step", Body: text})
	if c.world.step != nil {
		if err := c.world.step(ctx, c.index, c.steps); err != nil {
			return env.StepResult{Sent: true}, err
		}
	}
	// Some words end the episode, and some of these give a reward.
	done := len(text)%4 == 1
	return env.StepResult{
		Observation: fmt.Sprintf("you said %d", len(text)), Sent: true, Action: text, Done: done,
		Reward: share(done && len(text)%8 == 1),
	}, nil
}

func (c *fakeInstance) Close(context.Context) error {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.world.closed++
	return nil
}

// stage holds the engine, pool and environments of a rollout.
type stage struct {
	world *fakeWorld
	model *fakeModel
	envs  map[string]Env
	pool  *pool.Pool
	sched *engine.Scheduler
}

func newStage(t *testing.T, deterministic bool) *stage {
	t.Helper()
	s := &stage{world: &fakeWorld{}, model: &fakeModel{kv: map[engine.SeqID][]int32{}}}
	var err error
	if s.sched, err = engine.New(s.model, engine.Options{Deterministic: deterministic, ChunkTokens: 8}); err != nil {
		t.Fatal(err)
	}
	if s.pool, err = pool.New(s.world.spec(), []string{"http://127.0.0.1:1"}, pool.Options{}); err != nil {
		t.Fatal(err)
	}
	format, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	s.envs = map[string]Env{"fake": {Pool: s.pool, Setup: agent.Setup{
		Engine: s.sched, Renderer: fakeRenderer{}, Format: format, Spec: s.world.spec(),
		Options: agent.Options{MaxTurns: 6, MaxNewTokens: 20, MaxContext: 400, Temperature: 1},
	}}}
	t.Cleanup(func() { s.finish(t) })
	return s
}

// finish checks that no sessions, KV blocks, leases or instances are left.
func (s *stage) finish(t *testing.T) {
	if st := s.sched.Stats(); st.Open != 0 {
		t.Errorf("%d sessions are open at the end, want 0", st.Open)
	}
	s.sched.Shutdown()
	if n := len(s.model.kv); n != 0 {
		t.Errorf("the model holds %d sequences at the end, want 0", n)
	}
	if err := s.pool.Close(context.Background()); err != nil {
		t.Error(err)
	}
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.created != w.closed {
		t.Errorf("%d instances created, %d closed: a lease was not released", w.created, w.closed)
	}
	for _, f := range w.faults {
		t.Error(f)
	}
}

func tasks(n int) []data.Task {
	var out []data.Task
	for i := range n {
		out = append(out, data.Task{ID: fmt.Sprintf("fake_%d", i), Env: "fake", Index: i})
	}
	return out
}
