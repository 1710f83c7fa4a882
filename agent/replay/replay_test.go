package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scriptedBackend is a backend that returns a scripted reply, a byte at a time. The
// draw's seed and turn select the reply. A teacher may force other tokens; the
// margin is then the distance between the forced and the drawn id.
type scriptedBackend struct {
	teacher *Teacher
	noise   float64 // added to every log-prob

	mu sync.Mutex
	at map[engine.SeqID]turnStart
}

// turnStart is the turn of a sequence's newest reply, and the position of the reply's first token.
type turnStart struct{ turn, position int }

const idEnd = 256

var replies = []string{"Action:\nmove up", "Thought: é\n\nAction:\nmove left", "hm", "Action:\nmove down", "Action:\nmove right"}

func (b *scriptedBackend) Capacity() int  { return 1 << 20 }
func (b *scriptedBackend) BlockSize() int { return 16 }
func (b *scriptedBackend) Version() int64 { return 3 }

func (b *scriptedBackend) Drop(seq engine.SeqID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, seq)
}

func (*scriptedBackend) Release(context.Context) error { return nil }
func (*scriptedBackend) Reserve(context.Context) error { return nil }

func (b *scriptedBackend) Step(_ context.Context, batch []engine.Work) ([]engine.Sampled, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]engine.Sampled, len(batch))
	for i, w := range batch {
		if !w.Sample {
			continue
		}
		if at, ok := b.at[w.Seq]; !ok || at.turn != w.Draw.Turn {
			b.at[w.Seq] = turnStart{w.Draw.Turn, w.Draw.Position}
		}
		text := replies[(w.Draw.Seed%97+uint64(w.Draw.Turn)*3)%uint64(len(replies))]
		drawn := int32(idEnd)
		if n := w.Draw.Position - b.at[w.Seq].position; n < len(text) {
			drawn = int32(text[n])
		}
		out[i] = engine.Sampled{Token: drawn, LogProb: float32(-float64(drawn)/100 + b.noise)}
		if b.teacher == nil {
			continue
		}
		if forced, ok := b.teacher.Recorded(w.Draw); ok && forced != drawn {
			out[i].Token = forced
			b.teacher.Differs(w.Draw, forced, drawn, float64(max(forced-drawn, drawn-forced)))
		}
	}
	return out, nil
}

// template encodes each byte as an id. The id 300 starts a message.
type template struct{}

func (template) Start(messages []data.Message) ([]int32, error) {
	var ids []int32
	for _, m := range messages {
		ids = append(ids, 300)
		for _, b := range []byte(m.Content) {
			ids = append(ids, int32(b))
		}
	}
	return append(ids, 301, 302), nil
}

func (t template) Next(_ bool, _ int32, messages []data.Message) ([]int32, error) {
	return t.Start(messages)
}

func (template) StopTokens() []int32 { return []int32{idEnd} }

func (template) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte(id))
	}
	return b.String()
}

func newDecoder() func(int32) string {
	return func(id int32) string { return template{}.Decode([]int32{id}) }
}

// newSetup returns the setup of maze episodes, with an engine.
func newSetup(t *testing.T, deterministic bool, teacher *Teacher, noise float64) agent.Setup {
	t.Helper()
	sched, err := engine.New(&scriptedBackend{teacher: teacher, noise: noise, at: map[engine.SeqID]turnStart{}},
		engine.Options{Deterministic: deterministic, NewDecoder: newDecoder, ChunkTokens: 1 << 20, PrefillTokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.Shutdown)
	return agent.Setup{Engine: sched, Renderer: template{}, Format: react(t), Spec: maze(t), Options: options}
}

var options = agent.Options{MaxTurns: 6, MaxNewTokens: 40, MaxContext: 1 << 15, Temperature: 1, MaxObsTokens: 120}

func react(t *testing.T) agent.Format {
	f, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func maze(t *testing.T) env.Spec {
	s, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record plays episodes against a maze server.
func record(t *testing.T, deterministic bool, concurrency int) []*data.Episode {
	t.Helper()
	eps := recordWith(t, deterministic, concurrency, builtin.Options{})
	for _, e := range eps {
		if why := (Setup{}).Replayable(e); why != "" {
			t.Fatalf("%s: %s", e.Task.ID, why)
		}
	}
	return eps
}

// recordWith plays episodes against a maze server with the options o.
func recordWith(t *testing.T, deterministic bool, concurrency int, o builtin.Options) []*data.Episode {
	t.Helper()
	server, err := builtin.Serve(t.Context(), "maze", "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	pool, err := pool.New(maze(t), []string{server.URL}, pool.Options{Client: env.Options{Client: &http.Client{Transport: transport}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var tasks []data.Task
	for i := range 5 {
		tasks = append(tasks, data.Task{ID: fmt.Sprintf("maze_%d", i*4), Env: "maze", Index: i * 4})
	}
	setup := newSetup(t, deterministic, nil, 0)
	setup.Options.Instruction = "Walk to the goal."
	eps, _, err := rollout.RunEpisodes(t.Context(), map[string]rollout.Env{"maze": {Pool: pool, Setup: setup}}, tasks, rollout.Options{
		GroupSize: 2, Concurrency: concurrency, Seed: 7, Deterministic: deterministic, Exchanges: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return eps
}

// replayAll replays episodes, wave by wave if they have waves.
func replayAll(t *testing.T, withModel bool, noise float64, episodes ...*data.Episode) []Result {
	t.Helper()
	s := Setup{Agent: agent.Setup{Format: react(t), Spec: maze(t), Options: options}}
	s.ByText = len(episodes[0].Tokens) == 0
	if withModel {
		s.Teacher = &Teacher{Margin: 1e-4}
		s.Deterministic = episodes[0].Wave > 0
		s.Agent = newSetup(t, s.Deterministic, s.Teacher, noise)
	}
	var out []Result
	for len(episodes) > 0 {
		n := 1
		for n < len(episodes) && episodes[n].Wave == episodes[0].Wave {
			n++
		}
		results, err := Episodes(t.Context(), s, episodes[:n])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, results...)
		episodes = episodes[n:]
	}
	return out
}

// copied returns a deep copy of e.
func copied(t *testing.T, e *data.Episode) *data.Episode {
	t.Helper()
	c := *e
	c.Tokens, c.Mask, c.LogProbs = slices.Clone(e.Tokens), slices.Clone(e.Mask), slices.Clone(e.LogProbs)
	c.Turns, c.Messages, c.Exchanges, c.Created = slices.Clone(e.Turns), slices.Clone(e.Messages), slices.Clone(e.Exchanges), slices.Clone(e.Created)
	return &c
}

func TestReplayFindsNothing(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprint("deterministic ", deterministic), func(t *testing.T) {
			eps := record(t, deterministic, 3)
			draws, created := 0, 0
			for _, e := range eps {
				draws += e.SampledTokens()
				created += len(e.Created)
			}
			if created == 0 {
				t.Fatal("no instance was used twice, so the test checks nothing")
			}
			for _, withModel := range []bool{true, false} {
				got := 0
				for i, r := range replayAll(t, withModel, 0, eps...) {
					if r.Difference != nil || r.NearTies != 0 || r.MaxGap != 0 {
						t.Errorf("with model %v, %s sample %d: %+v %v", withModel, eps[i].Task.ID, eps[i].Sample, r, r.Difference)
					}
					got += r.Draws
				}
				if withModel && got != draws || !withModel && got != 0 {
					t.Errorf("%d ids were drawn, want %d", got, draws)
				}
			}
		})
	}
}

// TestReplayByText checks that episodes without ids can be replayed by their texts.
func TestReplayByText(t *testing.T) {
	for _, e := range record(t, false, 3) {
		e.ForgetIDs()
		if (Setup{}).Replayable(e) == "" || (Setup{ByText: true}).Replayable(e) != "" {
			t.Errorf("%s sample %d is replayable with ids or not replayable by text, want only by text", e.Task.ID, e.Sample)
		}
		if r := replayAll(t, false, 0, e)[0]; r.Difference != nil || r.Draws != 0 {
			t.Errorf("%s sample %d: %+v %v", e.Task.ID, e.Sample, r, r.Difference)
		}
	}
	// The record has one turn fewer, or one turn more.
	e := record(t, false, 1)[0]
	e.ForgetIDs()
	for name, turns := range map[string][]data.Turn{"fewer": e.Turns[:len(e.Turns)-1], "more": append(slices.Clone(e.Turns), e.Turns[0])} {
		c := copied(t, e)
		c.Turns = turns
		if replayAll(t, false, 0, c)[0].Difference == nil {
			t.Errorf("one turn %s: no difference found", name)
		}
	}
}

// TestReplayOfRetries checks that recorded failures and retries are replayed.
func TestReplayOfRetries(t *testing.T) {
	e := copied(t, record(t, false, 1)[3])
	reset := e.Exchanges[0]
	if !strings.Contains(reset.Path, "/reset") {
		t.Fatalf("the first exchange is %+v", reset)
	}
	refused, broken, busy := reset, reset, reset
	refused.Status, refused.Reply, refused.Err = 0, "", "environment reset: http://x: connection failure: connection refused (is the server running?)"
	broken.Reply, broken.Err = reset.Reply[:9], "environment reset: http://x: connection failure: unexpected EOF"
	busy.Status, busy.Reply, busy.Err = 500, "Internal Server Error", "environment reset: http://x: server error, status 500"
	var failed []data.Exchange
	for _, x := range []data.Exchange{refused, broken, busy, busy} {
		x.Sum = x.Checksum()
		failed = append(failed, x)
	}
	e.Exchanges = append(failed, e.Exchanges...)
	for _, withModel := range []bool{true, false} {
		if r := replayAll(t, withModel, 0, e)[0]; r.Difference != nil {
			t.Errorf("with model %v: %v", withModel, r.Difference)
		}
	}
}

// TestReplayOfALostReply checks the replay of episodes in which the reply to an executed
// step was lost, and the client requested the result instead of sending the step again.
func TestReplayOfALostReply(t *testing.T) {
	plan, err := fault.Parse("reset:0.2,seed=5")
	if err != nil {
		t.Fatal(err)
	}
	recalled := 0
	for _, e := range recordWith(t, false, 1, builtin.Options{Faults: plan}) {
		if (Setup{}).Replayable(e) != "" {
			continue
		}
		for i, x := range e.Exchanges {
			if x.Status == 0 && strings.HasSuffix(x.Path, "/step") {
				if !x.Sent || !strings.Contains(e.Exchanges[i+1].Path, "/detail") {
					t.Errorf("%s sample %d: after the step %+v the exchange is %+v, want a request for the result", e.Task.ID, e.Sample, x, e.Exchanges[i+1])
				}
				recalled++
			}
		}
		for _, withModel := range []bool{true, false} {
			if r := replayAll(t, withModel, 0, e)[0]; r.Difference != nil {
				t.Errorf("with model %v, %s sample %d: %v", withModel, e.Task.ID, e.Sample, r.Difference)
			}
		}
	}
	if recalled == 0 {
		t.Fatal("no result of a step with a lost reply was requested, so the test checks nothing")
	}
}

// TestReplayFindsEveryChange checks that a replay finds each single change of a record.
func TestReplayFindsEveryChange(t *testing.T) {
	eps := record(t, false, 1)
	var recorded *data.Episode
	for _, e := range eps {
		if len(e.Turns) >= 3 && len(e.Created) > 0 {
			recorded = e
		}
	}
	if recorded == nil {
		t.Fatal("no episode has three turns and an instance of an earlier episode")
	}
	x := len(recorded.Exchanges) - len(recorded.Turns) // index of the first turn's exchange
	step := func(e *data.Episode) *data.Exchange { return &e.Exchanges[x+1] }
	current := t
	swap := func(s *string, old, new string) {
		if !strings.Contains(*s, old) {
			current.Fatalf("%q has no %q", *s, old)
		}
		*s = strings.Replace(*s, old, new, 1)
	}
	position := recorded.Turns[1].Start
	for _, tt := range []struct {
		name   string
		change func(e *data.Episode)
		turn   int
		what   string
		model  bool // only a replay with the model finds the difference
	}{
		{"a sampled id", func(e *data.Episode) { e.Tokens[position+2]++ }, 2, InIDs, true},
		{"an id of a prompt", func(e *data.Episode) { e.Tokens[3]++ }, 1, InPrompt, true},
		{"the mask", func(e *data.Episode) { e.Mask[position+1] = 0 }, 2, InMask, false},
		{"the mask of a prompt", func(e *data.Episode) { e.Mask[0] = 1 }, 1, InMask, false},
		{"an observation", func(e *data.Episode) { swap(&e.Turns[1].Observation, "a", "b") }, 2, InObservation, false},
		{"an observation in a reply", func(e *data.Episode) { swap(&step(e).Reply, "wall", "walk") }, 2, InObservation, false},
		{"the reply of the reset", func(e *data.Episode) { swap(&e.Exchanges[x-1].Reply, "goal", "coal") }, 0, InObservation, false},
		{"a reward", func(e *data.Episode) { e.Turns[1].Reward += 0.5 }, 2, InReward, false},
		{"a reward in a reply", func(e *data.Episode) { swap(&step(e).Reply, `"reward":0`, `"reward":7`) }, 2, InReward, false},
		{"the episode's reward", func(e *data.Episode) { e.Reward -= 0.25 }, wholeEpisode, InReward, false},
		{"done", func(e *data.Episode) { e.Turns[0].Done = true }, 1, InDone, false},
		{"done in a reply", func(e *data.Episode) { swap(&step(e).Reply, `"done":false`, `"done":true `) }, 2, InDone, false},
		{"a request", func(e *data.Episode) { swap(&step(e).Body, "action", "actiom") }, 2, InRequest, false},
		{"a request's path", func(e *data.Episode) { swap(&step(e).Path, "step", "stop") }, 2, InRequest, false},
		{"the instance", func(e *data.Episode) { swap(&e.Created[0].Reply, `{"id":`, `{"id":1`) }, 0, InRequest, false},
		{"an unused part of a reply", func(e *data.Episode) { swap(&step(e).Reply, "{", "{ ") }, 2, InReply, false},
		{"an exchange too many", func(e *data.Episode) { e.Exchanges = append(e.Exchanges, *step(e)) }, wholeEpisode, InRequest, false},
		{"an exchange too few", func(e *data.Episode) { e.Exchanges = e.Exchanges[:len(e.Exchanges)-1] }, len(recorded.Turns), InRequest, false},
		{"the text", func(e *data.Episode) { e.Turns[1].Text += "x" }, 2, InText, true},
		{"the action", func(e *data.Episode) { e.Turns[1].Action += "x" }, 2, InAction, false},
		{"the stop", func(e *data.Episode) { e.Turns[1].Stop = "length" }, 2, InStop, true},
		{"the first message", func(e *data.Episode) { e.Messages[0].Content += "x" }, 0, InObservation, false},
		{"a later message", func(e *data.Episode) { e.Messages[2].Content += "x" }, 1, InMessages, false},
		{"a turn too few", func(e *data.Episode) { e.Turns = e.Turns[:len(e.Turns)-1] }, len(recorded.Turns), InPrompt, true},
		{"the instruction", func(e *data.Episode) { e.Instruction += "x" }, 0, InObservation, false},
		{"the outcome", func(e *data.Episode) { e.Outcome = data.ParseLimit }, wholeEpisode, InOutcome, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			current = t
			changed := copied(t, recorded)
			tt.change(changed)
			for _, withModel := range []bool{true, false} {
				if tt.model && !withModel {
					continue
				}
				r := replayAll(t, withModel, 0, changed)[0]
				if r.Difference == nil {
					t.Errorf("with model %v: the change was not found", withModel)
				} else if r.Difference.Turn != tt.turn || r.Difference.What != tt.what {
					t.Errorf("with model %v: %s, want turn %d, %s", withModel, r.Difference, tt.turn, tt.what)
				}
			}
			if tt.model || tt.what == InMask { // without ids there is nothing to compare
				return
			}
			changed.ForgetIDs()
			if d := replayAll(t, false, 0, changed)[0].Difference; d == nil || d.Turn != tt.turn || d.What != tt.what {
				t.Errorf("by text: %v, want turn %d, %s", d, tt.turn, tt.what)
			}
		})
	}
}

// TestNearTies checks that a token within the margin counts as a near tie, and
// any other token as a difference.
func TestNearTies(t *testing.T) {
	e := copied(t, record(t, false, 1)[0])
	e.Tokens[e.Turns[0].Start]++
	s := Setup{Teacher: &Teacher{Margin: 1.5}}
	s.Agent = newSetup(t, false, s.Teacher, 0.25)
	text := e.Turns[0].Text
	e.Turns[0].Text = string(rune(text[0]+1)) + text[1:]
	r, err := Episodes(t.Context(), s, []*data.Episode{e})
	if err != nil {
		t.Fatal(err)
	}
	if r[0].NearTies != 1 || r[0].Difference != nil && r[0].Difference.What == InIDs {
		t.Errorf("%+v %v", r[0], r[0].Difference)
	}
	if gap := r[0].MaxGap; gap < 0.2 || gap > 0.3 {
		t.Errorf("log-probs differ by %g, want 0.25", gap)
	}
	s.Teacher.Margin = 0.5
	if r, err = Episodes(t.Context(), s, []*data.Episode{e}); err != nil || r[0].NearTies != 0 || r[0].Difference.What != InIDs || r[0].Difference.Margin != 1 {
		t.Errorf("%+v %v %v", r[0], r[0].Difference, err)
	}
}

func TestDifferenceIsReadable(t *testing.T) {
	d := Difference{Turn: 2, What: InIDs, At: 71, Recorded: "5", Replayed: "6", Margin: 0.25}
	if got := d.String(); got != "turn 2: ids at 71: recorded 5, now 6 (won by 0.25)" {
		t.Error(got)
	}
	text, err := json.Marshal(d)
	if want := `{"turn":2,"what":"ids","at":71,"recorded":"5","replayed":"6","margin":0.25}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if got := around(strings.Repeat("é", 40), 41); got != `…"`+strings.Repeat("é", 30)+`"…` && !strings.HasPrefix(got, "…") {
		t.Error(got)
	}
}

func TestContradictoryRecordsAreRefused(t *testing.T) {
	e := record(t, false, 1)[0]
	for name, change := range map[string]func(e *data.Episode){
		"mask":  func(e *data.Episode) { e.Mask = e.Mask[1:] },
		"spans": func(e *data.Episode) { e.Turns[0].End = 1 << 20 },
	} {
		c := copied(t, e)
		change(c)
		if _, err := Episodes(t.Context(), Setup{}, []*data.Episode{c}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c := copied(t, e)
	c.Outcome = data.EnvError
	d := copied(t, e)
	d.Replays = 1
	for _, e := range []*data.Episode{c, d, {Outcome: data.Done}, {Outcome: data.Done, Turns: make([]data.Turn, 1)}, {Outcome: data.Done, Turns: make([]data.Turn, 1), Tokens: []int32{1}}} {
		if (Setup{}).Replayable(e) == "" {
			t.Errorf("%+v can be replayed", e)
		}
	}
}
