package agent

import (
	gocmp "cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

// walker is an instance of a deterministic environment: it answers with all actions
// so far. The function fail injects errors.
type walker struct {
	fail    func(call int, op string) error
	differs bool // its answers differ from those of other instances
	turns   int  // turns until it is done; 0: four
	calls   int
	actions []string
}

func (w *walker) call(op string) error {
	w.calls++
	if w.fail == nil {
		return nil
	}
	return w.fail(w.calls, op)
}

func (w *walker) Reset(_ context.Context, index int) (env.Obs, error) {
	w.actions = nil
	return env.Obs{Text: fmt.Sprint("start ", index)}, w.call("reset")
}

func (w *walker) Step(_ context.Context, text string) (env.StepResult, error) {
	w.actions = append(w.actions, text)
	if err := w.call("step"); err != nil {
		return env.StepResult{Sent: true}, err
	}
	obs := strings.Join(w.actions, " ")
	if w.differs && len(w.actions) == 2 {
		obs += "!"
	}
	turns := gocmp.Or(w.turns, 4)
	return env.StepResult{Observation: obs, Action: text, Sent: true, Done: len(w.actions) == turns, Reward: float64(len(w.actions)) / float64(turns)}, nil
}

func (w *walker) Close(context.Context) error { return nil }

func broken(op string) error {
	return &env.Error{Kind: env.KindServer, Op: op, Status: 500, Sent: true}
}

// at makes an instance fail in its n-th call.
func at(n int) func(int, string) error {
	return func(call int, op string) error {
		if call == n {
			return broken(op)
		}
		return nil
	}
}

// replays is the number of instances in a row that walk may lose at one point.
const replays = 2

// walk plays four replies on the given instances, starting with the first.
func walk(t *testing.T, deterministic bool, instances ...*walker) (ep *data.Episode, used, sampled int, err error) {
	t.Helper()
	e := &fakeEngine{replies: []fakeReply{{text: "Action: a"}, {text: "Action: b"}, {text: "Action: c"}, {text: "Action: d"}}}
	setup := testSetup(e)
	setup.Options.MaxTurns, setup.Spec.Deterministic = 10, deterministic
	used = 1
	ep, err = RunEpisode(t.Context(), setup, Start{
		Task: data.Task{ID: "fake_3", Index: 3}, Attempt: 1, Client: instances[0], Replays: replays,
		Replace: func(_ context.Context, lost error) (env.Client, error) {
			if lost == nil {
				t.Error("a working instance was replaced")
			}
			if used == len(instances) {
				return nil, nil
			}
			used++
			return instances[used-1], nil
		},
	})
	return ep, used, len(e.params), err
}

func TestReplay(t *testing.T) {
	undisturbed, _, _, err := walk(t, true, &walker{})
	if err != nil || undisturbed.Outcome != data.Success || len(undisturbed.Turns) != 4 {
		t.Fatalf("%+v, %v", undisturbed, err)
	}
	always := func(_ int, op string) error { return broken(op) }
	rejects := func(call int, op string) error {
		if op == "step" {
			return &env.Error{Kind: env.KindEnvironment, Op: op, Words: "The id 3 is not valid."}
		}
		return nil
	}
	for _, c := range []struct {
		name      string
		instances []*walker
		random    bool // not deterministic
		used      int
		err       string // pattern of the error; "": no error, the episode equals an episode without losses
	}{
		{name: "lost in the reset", instances: []*walker{{fail: at(1)}, {}}, used: 2},
		{name: "lost in the reset of a random environment", instances: []*walker{{fail: at(1)}, {}}, random: true, used: 2},
		{name: "lost in the first step", instances: []*walker{{fail: at(2)}, {}}, used: 2},
		{name: "lost in the third step", instances: []*walker{{fail: at(4)}, {}}, used: 2},
		{name: "lost in the middle of a replay", instances: []*walker{{fail: at(5)}, {fail: at(3)}, {fail: at(1)}, {fail: at(5)}, {}}, used: 5},
		{name: "forgotten by the server", instances: []*walker{{fail: func(call int, op string) error {
			if call == 3 {
				return &env.Error{Kind: env.KindEnvironment, Op: op}
			}
			return nil
		}}, {}}, used: 2},
		{name: "each instance passes one point more", instances: []*walker{{fail: at(2)}, {fail: at(3)}, {fail: at(4)}, {fail: at(5)}, {}}, used: 5},
		{name: "an instance passes the point at which two were lost", instances: []*walker{{fail: at(4)}, {fail: at(4)}, {fail: at(5)}, {fail: at(3)}, {fail: at(4)}, {fail: at(2)}, {fail: at(5)}, {}}, used: 8},
		{name: "no instance passes the third step", instances: []*walker{{fail: at(4)}, {fail: at(3)}, {fail: at(4)}, {fail: at(4)}, {}}, used: 4, err: "3 instances in a row were lost in turn 3 "},
		{name: "no instance reaches the same point again", instances: []*walker{{fail: at(4)}, {fail: at(1)}, {fail: at(1)}, {fail: at(1)}, {}}, used: 4, err: "3 instances in a row were lost in the reset"},
		{name: "lost in a step of a random environment", instances: []*walker{{fail: at(3)}, {}}, random: true, used: 1, err: "server error"},
		{name: "no other instance works", instances: []*walker{{fail: at(3)}, {fail: always}}, used: 2, err: "server error"},
		{name: "another instance answers differently", instances: []*walker{{fail: at(4)}, {differs: true}, {}}, used: 2, err: `answers turn 2 of the same actions with "Action: a Action: b!`},
		{name: "every server rejects the action", instances: []*walker{{fail: rejects}, {fail: rejects}, {}}, used: 2, err: "The id 3 is not valid."},
		{name: "an error that is not a failed request", instances: []*walker{{fail: func(int, string) error { return errors.New("odd") }}, {}}, used: 1, err: "odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ep, used, sampled, err := walk(t, !c.random, c.instances...)
			if used != c.used || ep.Replays != c.used-1 {
				t.Errorf("%d instances were used, %d replays; want %d instances", used, ep.Replays, c.used)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || ep.Outcome != data.EnvError || ep.Err != err.Error() {
					t.Errorf("%s, %v; want %q", ep.Outcome, err, c.err)
				}
				return
			}
			if d := cmp.Diff(undisturbed, ep, cmpopts.IgnoreFields(data.Episode{}, "Replays", "Millis"), cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis")); d != "" {
				t.Errorf("episode (-undisturbed +disturbed):\n%s", d)
			}
			if sampled != 4 {
				t.Errorf("%d replies were sampled: recorded replies must not be sampled again", sampled)
			}
			for i, w := range c.instances {
				if n := len(w.actions); n != len(slices.Compact(slices.Clone(w.actions))) {
					t.Errorf("instance %d received an action twice: %q", i, w.actions)
				}
			}
		})
	}
}

// TestNoOtherInstance checks that the episode ends with the error of Replace if no other instance is available.
func TestNoOtherInstance(t *testing.T) {
	down := &pool.DownError{Env: "fake", Err: errors.New("all down")}
	e := &fakeEngine{replies: []fakeReply{{text: "Action: a"}}}
	setup := testSetup(e)
	setup.Spec.Deterministic = true
	ep, err := RunEpisode(t.Context(), setup, Start{
		Replays: 1,
		Client:  &walker{fail: at(2)},
		Replace: func(context.Context, error) (env.Client, error) { return nil, down },
	})
	if !errors.Is(err, down) || ep.Outcome != data.EnvError {
		t.Errorf("outcome %s, error %v; want env_error, %v", ep.Outcome, err, down)
	}
}

// TestReplaysOnALossyServer checks that an episode completes on a server that loses
// one call in five at random, and fails soon on a server that loses nearly all calls.
func TestReplaysOnALossyServer(t *testing.T) {
	play := func(seed uint64, turns int, share float64) (ep *data.Episode, steps int) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lossy := func() *walker {
			return &walker{turns: turns, fail: func(_ int, op string) error {
				if op == "step" {
					steps++
				}
				if rng.Float64() < share {
					return broken(op)
				}
				return nil
			}}
		}
		var replies []fakeReply
		for i := range turns {
			replies = append(replies, fakeReply{text: fmt.Sprintf("Action: %c", 'a'+i)})
		}
		setup := testSetup(&fakeEngine{replies: replies})
		setup.Options.MaxTurns, setup.Options.MaxContext, setup.Spec.Deterministic = 2*turns, 1<<20, true
		ep, _ = RunEpisode(t.Context(), setup, Start{
			Client: lossy(), Replays: 10,
			Replace: func(context.Context, error) (env.Client, error) { return lossy(), nil },
		})
		return ep, steps
	}
	for seed := range uint64(20) {
		if ep, steps := play(seed, 12, 0.2); ep.Outcome != data.Success || len(ep.Turns) != 12 {
			t.Errorf("seed %d: %s after %d turns, %d steps and %d replays: %s", seed, ep.Outcome, len(ep.Turns), steps, ep.Replays, ep.Err)
		}
		if ep, _ := play(seed, 12, 0.9); ep.Outcome != data.EnvError || ep.Replays > 10*maxTotalFactor || !strings.Contains(ep.Err, "in a row were lost in") {
			t.Errorf("seed %d: %s after %d replays: %s", seed, ep.Outcome, ep.Replays, ep.Err)
		}
	}
}

// TestReplayLimitOfEpisode checks that an episode may lose a hundred times as many
// instances as one point may, even if the losses are spread over all points.
func TestReplayLimitOfEpisode(t *testing.T) {
	l := lostInstances{limit: 2}
	n := 0
	for point := 0; l.add(point); point = 1 - point {
		l.passed(point)
		if n++; n > 1000 {
			t.Fatal("an episode may lose more than 1000 instances")
		}
	}
	err := l.limitError(1, broken("step"))
	if n != 200 || !errors.Is(err, env.KindServer) || !strings.Contains(err.Error(), "201 instances were lost, the last in turn 1 ") {
		t.Errorf("limit after %d instances, want 200: %v", n, err)
	}
}

// recaller is a walker. The field reports is true if the server can report the
// result of a lost step. recallErr is the error of the request for the result.
type recaller struct {
	*walker
	reports   bool
	recallErr error
	requests  int
}

func (r *recaller) Recall(context.Context) (env.StepResult, bool, error) {
	r.requests++
	n := len(r.actions)
	return env.StepResult{
		Observation: strings.Join(r.actions, " "), Action: r.actions[n-1], Sent: true, Done: n == 4, Reward: float64(n) / 4,
	}, r.reports, r.recallErr
}

// TestRecall checks that an episode continues on the same instance, without sending
// the step again, if the reply to a step is lost and the server reports the result.
func TestRecall(t *testing.T) {
	undisturbed, _, _, err := walk(t, true, &walker{})
	if err != nil {
		t.Fatal(err)
	}
	loses := func(kind env.Kind) func(int, string) error {
		return func(call int, op string) error {
			if call == 3 {
				return &env.Error{Kind: kind, Op: op, Sent: true}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name           string
		fail           func(int, string) error
		random         bool
		reports        bool
		recallErr      error
		requests, used int
	}{
		{name: "the server reports the result", fail: loses(env.KindConnection), reports: true, requests: 1, used: 1},
		{name: "the server of a random environment reports the result", fail: loses(env.KindConnection), random: true, reports: true, requests: 1, used: 1},
		{name: "the server does not report the result", fail: loses(env.KindServer), requests: 1, used: 2},
		{name: "the server does not answer", fail: loses(env.KindConnection), reports: true, recallErr: broken("observe"), requests: 1, used: 2},
		{name: "no request for the result after a timeout", fail: loses(env.KindTimeout), reports: true, used: 2},
		{name: "the server rejected the action", fail: loses(env.KindEnvironment), reports: true, used: 2},
		{name: "the reset was lost", fail: at(1), reports: true, used: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recaller{walker: &walker{fail: c.fail}, reports: c.reports, recallErr: c.recallErr}
			e := &fakeEngine{replies: []fakeReply{{text: "Action: a"}, {text: "Action: b"}, {text: "Action: c"}, {text: "Action: d"}}}
			setup := testSetup(e)
			setup.Options.MaxTurns, setup.Spec.Deterministic = 10, !c.random
			used := 1
			ep, err := RunEpisode(t.Context(), setup, Start{
				Task: data.Task{ID: "fake_3", Index: 3}, Attempt: 1, Client: r, Replays: replays,
				Replace: func(context.Context, error) (env.Client, error) { used++; return &walker{}, nil },
			})
			if err != nil || used != c.used || r.requests != c.requests {
				t.Errorf("%d instances, %d requests for the result, error %v; want %d and %d", used, r.requests, err, c.used, c.requests)
			}
			if d := cmp.Diff(undisturbed, ep, cmpopts.IgnoreFields(data.Episode{}, "Replays", "Millis"), cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis")); d != "" {
				t.Errorf("episode (-undisturbed +disturbed):\n%s", d)
			}
			if n := len(r.actions); n != len(slices.Compact(slices.Clone(r.actions))) {
				t.Errorf("the server received an action twice: %q", r.actions)
			}
		})
	}
}
