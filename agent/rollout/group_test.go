package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/pool"
)

// twoServers puts the stage's environment on two servers. log receives the pool's
// log.
func (s *stage) twoServers(t *testing.T, o pool.Options, log *bytes.Buffer) {
	t.Helper()
	if log != nil {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	pool, err := pool.New(s.world.spec(), []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	e := s.envs["fake"]
	e.Pool = pool
	s.envs["fake"] = e
}

// onServer makes the first observation depend on the server.
func onServer(server string, index int) string { return fmt.Sprintf("task %d of %s", index, server) }

// TestGroupsStartAlike checks that each group plays the task of one server if two servers have
// different tasks under one index, that one warning names the servers, and that the groups are
// counted.
func TestGroupsStartAlike(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprint(deterministic), func(t *testing.T) {
			s := newStage(t, deterministic)
			s.world.first = onServer
			var log bytes.Buffer
			s.twoServers(t, pool.Options{MaxPerServer: 3}, &log)
			o := Options{GroupSize: 4, Concurrency: 5, Seed: 3, Deterministic: deterministic}
			var mixed int
			for range 2 {
				eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(6), o)
				if err != nil {
					t.Fatal(err)
				}
				starts := map[string]string{}
				for _, ep := range eps {
					if !ep.Outcome.Trainable() || ep.Attempts != 1 {
						t.Errorf("%s sample %d: %s after %d attempts: %s", ep.Task.ID, ep.Sample, ep.Outcome, ep.Attempts, ep.Err)
					}
					if known, ok := starts[ep.UID]; ok && known != ep.FirstObservation {
						t.Errorf("group %s has the first observations %q and %q, want equal ones", ep.UID, known, ep.FirstObservation)
					}
					starts[ep.UID] = ep.FirstObservation
					if want := onServer(ep.Server, ep.Task.Index); ep.FirstObservation != want {
						t.Errorf("the first observation is %q, which is not the text of server %s", ep.FirstObservation, ep.Server)
					}
				}
				mixed += stats.MixedStarts
				if n := Metrics(eps)["group/different_starts"]; n != 0 || stats.Retries != 0 || stats.Failed != 0 {
					t.Errorf("%v groups with different starts, want 0 and no retries or failures; stats %+v", n, stats)
				}
			}
			if mixed == 0 || mixed > 12 {
				t.Errorf("MixedStarts is %d, want 1 to 12", mixed)
			}
			if text := log.String(); strings.Count(text, "different tasks under one index") != 1 || !strings.Contains(text, "http://127.0.0.1:1") || !strings.Contains(text, "http://127.0.0.1:2") {
				t.Errorf("want one warning that names both servers, got:\n%s", text)
			}
		})
	}
}

// TestStartsInWavesDoNotDependOnDelays checks that in deterministic mode neither the starts nor the
// batches depend on the timing of resets.
func TestStartsInWavesDoNotDependOnDelays(t *testing.T) {
	var shapes []string
	var episodes []*data.Episode
	for round := range 6 {
		s := newStage(t, true)
		s.world.first = onServer
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(uint64(round), 1))
		s.world.reset = func(int) error {
			mu.Lock()
			wait := rng.IntN(200)
			mu.Unlock()
			for range wait {
				runtime.Gosched()
			}
			return nil
		}
		s.twoServers(t, pool.Options{MaxPerServer: 3}, nil)
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(5), Options{GroupSize: 3, Concurrency: 5, Seed: 3, Deterministic: true})
		if err != nil || stats.MixedStarts == 0 {
			t.Fatalf("stats %+v, %v", stats, err)
		}
		if round == 0 {
			shapes, episodes = s.model.shapes, eps
			continue
		}
		if diff := cmp.Diff(episodes, eps, sameButTimes); diff != "" {
			t.Fatalf("the episodes of round 0 and round %d differ:\n%s", round, diff)
		}
		if diff := cmp.Diff(shapes, s.model.shapes); diff != "" {
			t.Fatalf("the batches of round 0 and round %d differ:\n%s", round, diff)
		}
	}
}

// TestStartsOfOneServerDiffer checks that different starts on one server are accepted in random
// environments and are an error in deterministic ones.
func TestStartsOfOneServerDiffer(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprint(deterministic), func(t *testing.T) {
			s := newStage(t, false)
			var n atomic.Int32
			s.world.first = func(string, int) string { return fmt.Sprintf("start %d", n.Add(1)) }
			e := s.envs["fake"]
			e.Setup.Spec.Deterministic = deterministic
			s.envs["fake"] = e
			eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(1), Options{GroupSize: 3, Concurrency: 1, Attempts: 2})
			if err != nil || stats.MixedStarts != 0 {
				t.Fatalf("stats %+v, %v", stats, err)
			}
			failed := 0
			for _, ep := range eps {
				if ep.Outcome.Trainable() {
					continue
				}
				failed++
				if ep.Outcome != data.EnvError || !strings.Contains(ep.Err, "has changed since its group began") {
					t.Errorf("%s: %s", ep.Outcome, ep.Err)
				}
			}
			different := Metrics(eps)["group/different_starts"]
			if deterministic && (failed != 2 || different != 0) || !deterministic && (failed != 0 || different != 1) {
				t.Errorf("%d episodes failed and %v groups have different starts; want 2 and 0 if deterministic, else 0 and 1", failed, different)
			}
			if deterministic && s.world.created != 1 {
				t.Errorf("%d instances were created, want 1: a working instance was replaced", s.world.created)
			}
		})
	}
}

// TestGroupOfQuarantinedServer checks that a group whose server remains quarantined is not
// completed on another server, and that other groups are played there.
func TestGroupOfQuarantinedServer(t *testing.T) {
	s := newStage(t, false)
	s.world.first = onServer
	const down, up = "http://127.0.0.1:1", "http://127.0.0.1:2"
	s.twoServers(t, pool.Options{WaitHealthy: 20 * time.Millisecond, ProbePause: time.Hour, ProbeMax: time.Hour}, nil)
	s.envs["fake"].Pool.ServerDown(down, errors.New("it died"))
	eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(2), Options{
		GroupSize: 2, Concurrency: 2, Skip: func(uid string, sample int) bool { return uid == "0/fake/fake_0" && sample == 0 },
		Starts: map[string]Start{"0/fake/fake_0": {onServer(down, 0), down}},
	})
	if err != nil || len(eps) != 3 || stats.Failed != 1 || stats.Retries != 0 || stats.MixedStarts != 1 {
		t.Fatalf("%d episodes, stats %+v, %v", len(eps), stats, err)
	}
	if ep := eps[0]; ep.Outcome != data.EnvError || !strings.Contains(ep.Err, "server "+down+" did not answer") {
		t.Errorf("%s: %s", ep.Outcome, ep.Err)
	}
	for _, ep := range eps[1:] {
		if !ep.Outcome.Trainable() || ep.Server != up {
			t.Errorf("%s on %s: %s %s", ep.Task.ID, ep.Server, ep.Outcome, ep.Err)
		}
	}
}

// TestStartsOfEarlierEpisodes checks that the episodes of an earlier rollout decide the start of
// the remaining ones.
func TestStartsOfEarlierEpisodes(t *testing.T) {
	s := newStage(t, false)
	s.world.first = onServer
	s.twoServers(t, pool.Options{}, nil)
	earlier := []*data.Episode{
		{UID: "0/fake/fake_0", Outcome: data.EnvError, FirstObservation: "lost", Server: "http://127.0.0.1:1"},
		{UID: "0/fake/fake_0", Outcome: data.Done, FirstObservation: onServer("http://127.0.0.1:2", 0), Server: "http://127.0.0.1:2"},
		{UID: "0/fake/fake_1", Outcome: data.Done}, // from a dump without first observations
	}
	eps, _, err := RunEpisodes(t.Context(), s.envs, tasks(2), Options{GroupSize: 1, Concurrency: 1, Starts: StartsOf(earlier)})
	if err != nil || eps[0].Server != "http://127.0.0.1:2" || !eps[0].Outcome.Trainable() || !eps[1].Outcome.Trainable() {
		t.Errorf("%+v, %v", eps, err)
	}
	// An episode fails if no server gives the recorded start, with or without a recorded server.
	for _, start := range []Start{{"another", "http://127.0.0.1:9"}, {"another", ""}} {
		e := s.envs["fake"]
		e.Setup.Spec.Deterministic = true
		eps, stats, err := RunEpisodes(t.Context(), map[string]Env{"fake": e}, tasks(2), Options{
			GroupSize: 1, Concurrency: 1, Starts: map[string]Start{"0/fake/fake_0": start},
		})
		if err != nil || eps[0].Outcome != data.EnvError || eps[0].Err == "" || stats.Failed != 1 {
			t.Errorf("%+v: %+v, %v", start, eps[0], err)
		}
	}
}
