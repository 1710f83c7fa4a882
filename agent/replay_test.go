package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// walker is an instance of a deterministic environment: what it answers is
// what it was told so far. fail may lose it.
type walker struct {
	fail  func(call int, op string) error
	odd   bool // it answers otherwise than the others
	calls int
	told  []string
}

func (w *walker) call(op string) error {
	w.calls++
	if w.fail == nil {
		return nil
	}
	return w.fail(w.calls, op)
}

func (w *walker) Reset(_ context.Context, index int) (env.Obs, error) {
	w.told = nil
	return env.Obs{Text: fmt.Sprint("start ", index)}, w.call("reset")
}

func (w *walker) Step(_ context.Context, text string) (env.StepResult, error) {
	w.told = append(w.told, text)
	if err := w.call("step"); err != nil {
		return env.StepResult{Sent: true}, err
	}
	obs := strings.Join(w.told, " ")
	if w.odd && len(w.told) == 2 {
		obs += "!"
	}
	return env.StepResult{Observation: obs, Action: text, Sent: true, Done: len(w.told) == 4, Reward: float64(len(w.told)) / 4}, nil
}

func (w *walker) Close(context.Context) error { return nil }

func broken(op string) error {
	return &env.Error{Kind: env.KindServer, Op: op, Status: 500, Sent: true}
}

// at loses an instance in its n-th call.
func at(n int) func(int, string) error {
	return func(call int, op string) error {
		if call == n {
			return broken(op)
		}
		return nil
	}
}

// walk plays four replies on instances that are lost as told; the first is
// what the episode begins with.
func walk(t *testing.T, deterministic bool, instances ...*walker) (ep *data.Episode, used, sampled int, err error) {
	t.Helper()
	e := &fakeEngine{replies: []fakeReply{{text: "Action: a"}, {text: "Action: b"}, {text: "Action: c"}, {text: "Action: d"}}}
	setup := testSetup(e)
	setup.Options.MaxTurns, setup.Spec.Deterministic = 10, deterministic
	used = 1
	ep, err = RunEpisode(t.Context(), setup, Start{
		Task: data.Task{ID: "fake_3", Index: 3}, Attempt: 1, Client: instances[0],
		Another: func(_ context.Context, lost error) (env.Client, error) {
			if lost == nil {
				t.Error("an instance is replaced, and nothing was wrong with it")
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
	whole, _, _, err := walk(t, true, &walker{})
	if err != nil || whole.Outcome != data.Success || len(whole.Turns) != 4 {
		t.Fatalf("%+v, %v", whole, err)
	}
	always := func(_ int, op string) error { return broken(op) }
	refuses := func(call int, op string) error {
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
		err       string // "": the episode is the undisturbed one
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
		{name: "lost in a step of a random environment", instances: []*walker{{fail: at(3)}, {}}, random: true, used: 1, err: "server error"},
		{name: "no other is left", instances: []*walker{{fail: at(3)}, {fail: always}}, used: 2, err: "server error"},
		{name: "another answers otherwise", instances: []*walker{{fail: at(4)}, {odd: true}, {}}, used: 2, err: `answers turn 2 of the same actions with "Action: a Action: b!`},
		{name: "no server wants the action", instances: []*walker{{fail: refuses}, {fail: refuses}, {}}, used: 2, err: "The id 3 is not valid."},
		{name: "no failure of the exchange", instances: []*walker{{fail: func(int, string) error { return errors.New("odd") }}, {}}, used: 1, err: "odd"},
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
			if d := cmp.Diff(whole, ep, cmpopts.IgnoreFields(data.Episode{}, "Replays", "Millis"), cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis")); d != "" {
				t.Errorf("undisturbed (-) and disturbed (+): %s", d)
			}
			if sampled != 4 {
				t.Errorf("%d replies were sampled: what was said must stay said", sampled)
			}
			for i, w := range c.instances {
				if n := len(w.told); n != len(slices.Compact(slices.Clone(w.told))) {
					t.Errorf("instance %d was told %q", i, w.told)
				}
			}
		})
	}
}

// Where no instance can be had in place of a lost one, that is the error.
func TestNoOtherInstance(t *testing.T) {
	down := &env.DownError{Env: "fake", Err: errors.New("all down")}
	e := &fakeEngine{replies: []fakeReply{{text: "Action: a"}}}
	setup := testSetup(e)
	setup.Spec.Deterministic = true
	ep, err := RunEpisode(t.Context(), setup, Start{
		Client:  &walker{fail: at(2)},
		Another: func(context.Context, error) (env.Client, error) { return nil, down },
	})
	if !errors.Is(err, down) || ep.Outcome != data.EnvError {
		t.Errorf("%s, %v", ep.Outcome, err)
	}
}
