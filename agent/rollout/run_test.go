package rollout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
)

// sameButTimes compares episodes and ignores times.
var sameButTimes = cmp.Options{
	cmpopts.IgnoreFields(data.Episode{}, "Millis"),
	cmpopts.IgnoreFields(data.Turn{}, "GenMillis", "EnvMillis"),
}

func TestEpisodesDoNotDependOnConcurrency(t *testing.T) {
	var first []*data.Episode
	for _, concurrency := range []int{1, 7, 64} {
		s := newStage(t, false)
		var streamed atomic.Int32
		last := Progress{}
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(10), Options{
			GroupSize: 4, Concurrency: concurrency, Seed: 5,
			OnEpisode: func(*data.Episode) error { streamed.Add(1); return nil },
			OnProgress: func(p Progress) {
				if p.Done != last.Done+1 || p.Total != 40 {
					t.Errorf("after the progress %+v the progress is %+v, want one more of 40 episodes", last, p)
				}
				last = p
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(eps) != 40 || streamed.Load() != 40 || stats.Done != 40 || last.Done != 40 {
			t.Errorf("%d episodes, %d streamed, stats %+v", len(eps), streamed.Load(), stats)
		}
		sampled, turns, success := 0, 0, 0
		for i, ep := range eps {
			if want := fmt.Sprintf("fake_%d", i/4); ep.Task.ID != want || ep.Sample != i%4 || ep.UID != "0/fake/"+want {
				t.Errorf("result %d is %s sample %d of group %s, want %s sample %d", i, ep.Task.ID, ep.Sample, ep.UID, want, i%4)
			}
			sampled += ep.SampledTokens()
			turns += len(ep.Turns)
			success += int(share(ep.Outcome == data.Success))
		}
		if stats.SampledTokens != sampled || stats.Turns != turns || stats.Success != success || turns == 0 || success == 0 {
			t.Errorf("stats %+v, counted %d sampled, %d turns, %d successes", stats, sampled, turns, success)
		}
		if s.world.created > concurrency {
			t.Errorf("%d instances were created for %d episodes at a time: instances are not reused", s.world.created, concurrency)
		}
		if first == nil {
			first = eps
		} else if diff := cmp.Diff(first, eps, sameButTimes); diff != "" {
			t.Errorf("concurrency %d changes episodes (-1 +%d):\n%s", concurrency, concurrency, diff)
		}
	}
}

// goldenSeed is an episode seed that was computed in Python with the formula of EpisodeSeed.
const goldenSeed = 11413148874406289671

func TestSeeds(t *testing.T) {
	seen := map[uint64]string{}
	for _, o := range []Options{{GroupSize: 8, Seed: 1}, {GroupSize: 8, Seed: 2}, {GroupSize: 8, Seed: 1, Step: 1}} {
		twice := append(tasks(5), tasks(5)...)
		uids := map[string]int{}
		jobs, _, _ := jobsOf(twice, nil, o)
		for _, j := range jobs {
			name := fmt.Sprintf("seed %d %s sample %d", o.Seed, j.uid, j.sample)
			if other, taken := seen[j.seed]; taken {
				t.Errorf("%s and %s share a seed", name, other)
			}
			seen[j.seed] = name
			uids[j.uid]++
		}
		if len(uids) != 10 {
			t.Errorf("%d groups, want 10: each of the 5 tasks occurs twice", len(uids))
		}
	}
	// The second rollout of a step continues the numbering of the first.
	single, _, _ := jobsOf(append(tasks(5), tasks(5)...), nil, Options{GroupSize: 2, Seed: 1})
	rest, _, _ := jobsOf(tasks(5), nil, Options{GroupSize: 2, Seed: 1, Earlier: tasks(5)})
	for i, j := range rest {
		if w := single[len(single)-len(rest)+i]; j.uid != w.uid || j.seed != w.seed {
			t.Errorf("episode %s of the second rollout has seed %d; in a single rollout it is %s with seed %d", j.uid, j.seed, w.uid, w.seed)
		}
	}
	// A run's results depend on the seeds, so they must not change.
	if got := EpisodeSeed(42, 3, "maze", "maze_7", 0, 1); got != goldenSeed {
		t.Errorf("EpisodeSeed = %d, want %d", got, uint64(goldenSeed))
	}
}

func TestFlakyEnvironmentIsRetried(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprint(deterministic), func(t *testing.T) {
			s := newStage(t, deterministic)
			var mu sync.Mutex
			tries := map[int]int{}
			s.world.reset = func(index int) error {
				mu.Lock()
				defer mu.Unlock()
				tries[index]++
				if index == 3 || index == 5 && tries[5] == 1 {
					return errors.New("flaky")
				}
				return nil
			}
			eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(8), Options{
				GroupSize: 1, Concurrency: 3, Deterministic: deterministic, Attempts: 2,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, ep := range eps {
				attempts, failed := 1, i == 3
				if i == 3 || i == 5 {
					attempts = 2
				}
				if ep.Attempts != attempts || (ep.Outcome == data.EnvError) != failed || failed != strings.Contains(ep.Err, "flaky") {
					t.Errorf("episode %d: %s after %d attempts, %q", i, ep.Outcome, ep.Attempts, ep.Err)
				}
			}
			if stats.Retries != 2 || stats.Failed != 1 || stats.Done != 8 {
				t.Errorf("stats %+v, want 2 retries and 1 failed of 8", stats)
			}
			if s.world.created < 4 { // one instance for each failure, and a working one
				t.Errorf("%d instances created: the instance of a failed attempt was used again", s.world.created)
			}
		})
	}
}

func TestEngineFailureIsRetriedAndKeepsTheInstance(t *testing.T) {
	s := newStage(t, false)
	broke := false
	s.model.fail = func(w engine.Work) bool {
		was := broke
		broke = true
		return !was
	}
	eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(1), Options{GroupSize: 1, Concurrency: 1})
	if err != nil || !eps[0].Outcome.Trainable() || eps[0].Attempts != 2 || stats.Retries != 1 {
		t.Errorf("%+v, %+v, %v", eps[0], stats, err)
	}
	if s.world.created != 1 {
		t.Errorf("%d instances: a working instance was replaced", s.world.created)
	}
}

func TestTooManyFailures(t *testing.T) {
	tests := []struct {
		name      string
		maxFailed float64
		broken    int // tasks below this fail
		fails     bool
	}{
		{"all", 0, 10, true},
		{"all but one, no threshold", 0, 9, false},
		{"over the threshold", 0.3, 4, true},
		{"at the threshold", 0.3, 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, false)
			s.world.reset = func(index int) error {
				if index < tt.broken {
					return errors.New("status 500: boom")
				}
				return nil
			}
			eps, _, err := RunEpisodes(t.Context(), s.envs, tasks(10), Options{GroupSize: 1, Concurrency: 2, MaxFailed: tt.maxFailed})
			if (err != nil) != tt.fails {
				t.Fatalf("error %v, want an error: %v", err, tt.fails)
			}
			if err != nil && !strings.Contains(err.Error(), "status 500: boom") {
				t.Errorf("the error %q does not name the cause", err)
			}
			for i, ep := range eps {
				if ep == nil || ep.Outcome == "" {
					t.Errorf("result %d is %+v", i, ep)
				}
			}
		})
	}
}

func TestHungEnvironmentTimesOut(t *testing.T) {
	s := newStage(t, false)
	s.world.step = func(ctx context.Context, index, step int) error {
		if index != 2 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(4), Options{
		GroupSize: 1, Concurrency: 4, Attempts: 2, EpisodeTimeout: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	// The other episodes are not checked: they may time out on a busy machine.
	if ep := eps[2]; ep.Outcome != data.EnvError || ep.Attempts != 2 || !strings.Contains(ep.Err, "time limit") {
		t.Errorf("the hung episode has the outcome %s after %d attempts, want a time limit after 2: %s", ep.Outcome, ep.Attempts, ep.Err)
	}
	if stats.Failed < 1 || stats.Retries < 1 {
		t.Errorf("stats %+v, want a retry and a failure", stats)
	}
}

func TestCancelledMidWay(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprint(deterministic), func(t *testing.T) {
			s := newStage(t, deterministic)
			ctx, cancel := context.WithCancel(t.Context())
			var hung atomic.Int32
			s.world.step = func(ctx context.Context, index, step int) error {
				if index < 2 {
					return nil
				}
				if hung.Add(1) == 4 {
					cancel()
				}
				<-ctx.Done()
				return ctx.Err()
			}
			eps, stats, err := RunEpisodes(ctx, s.envs, tasks(20), Options{GroupSize: 1, Concurrency: 6, Deterministic: deterministic})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
			cancelled := 0
			for i, ep := range eps {
				if ep == nil {
					t.Fatalf("result %d is nil", i)
				}
				cancelled += int(share(ep.Outcome == data.Cancelled))
			}
			if cancelled < 18 || stats.Failed != 0 || stats.Retries != 0 {
				t.Errorf("%d cancelled, stats %+v", cancelled, stats)
			}
		})
	}
}

// TestServersDown checks that a rollout without a working server ends after one wait of the pool,
// not after one wait per episode.
func TestServersDown(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		s := newStage(t, deterministic)
		spec := s.world.spec()
		var asked atomic.Int32
		spec.New = func(context.Context, env.Options) (env.Client, error) {
			asked.Add(1)
			return nil, &env.Error{Kind: env.KindConnection, Op: "create", URL: "http://127.0.0.1:1"}
		}
		p, err := pool.New(spec, []string{"http://127.0.0.1:1"}, pool.Options{WaitHealthy: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())
		e := s.envs["fake"]
		e.Pool = p
		s.envs["fake"] = e
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(40), Options{GroupSize: 1, Concurrency: 2, Deterministic: deterministic})
		var down *pool.DownError
		if !errors.As(err, &down) || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
			t.Errorf("got %v", err)
		}
		if stats.Retries > 0 || stats.Done > 4 || asked.Load() > 2 || len(eps) != 40 {
			t.Errorf("stats %+v, %d attempts to create an instance: every episode waited", stats, asked.Load())
		}
	}
}

// TestPromptTooLong checks that a task with a first prompt above the limit ends the rollout
// at once: retries cannot help and the model is not at fault.
func TestPromptTooLong(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		s := newStage(t, deterministic)
		e := s.envs["fake"]
		e.Setup.Options.MaxPrompt = 5
		s.envs["fake"] = e
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(40), Options{GroupSize: 1, Concurrency: 1, Deterministic: deterministic})
		var prompt *agent.PromptError
		if !errors.As(err, &prompt) || prompt.Task != "fake_0" || prompt.Limit != 5 || prompt.Key != agent.MaxPromptKey {
			t.Errorf("got %v", err)
		}
		if stats.Done > 2 || stats.Retries > 0 || len(eps) != 40 || eps[0].Outcome != data.ContextLimit || eps[39].Outcome != data.Cancelled {
			t.Errorf("stats %+v, first %s, last %s", stats, eps[0].Outcome, eps[39].Outcome)
		}
	}
}

func TestCallbackErrorEndsTheRollout(t *testing.T) {
	s := newStage(t, false)
	full := errors.New("disk full")
	calls := 0
	_, _, err := RunEpisodes(t.Context(), s.envs, tasks(50), Options{
		GroupSize: 1, Concurrency: 1, OnEpisode: func(*data.Episode) error { calls++; return full },
	})
	if !errors.Is(err, full) || calls > 2 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

func TestExchangesBelongToTheirEpisode(t *testing.T) {
	s := newStage(t, false)
	eps, _, err := RunEpisodes(t.Context(), s.envs, tasks(6), Options{GroupSize: 2, Concurrency: 3, Exchanges: true})
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, ep := range eps {
		x := ep.Exchanges
		if len(x) > 0 && x[0].Path == "/create" {
			created++
			x = x[1:]
			if ep.Created != nil {
				t.Errorf("%s records the creation of its instance twice", ep.Task.ID)
			}
		} else if len(ep.Created) != 1 || ep.Created[0].Path != "/create" {
			t.Errorf("%s does not record the creation of its instance: %+v", ep.Task.ID, ep.Created)
		}
		if len(x) != 1+len(ep.Turns) || x[0].Path != "/reset" || x[0].Body != fmt.Sprint(ep.Task.Index) {
			t.Errorf("%s has exchanges %+v", ep.Task.ID, ep.Exchanges)
			continue
		}
		for i, turn := range ep.Turns {
			if x[i+1].Path != "/step" || x[i+1].Body != turn.Text {
				t.Errorf("%s turn %d: exchange %+v, text %q", ep.Task.ID, i, x[i+1], turn.Text)
			}
		}
	}
	if created != s.world.created {
		t.Errorf("the episodes record %d of %d creations of instances, want all", created, s.world.created)
	}
}

// TestSkip checks that skipped episodes are not played and do not change the other episodes.
func TestSkip(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		play := func(o Options) []*data.Episode {
			s := newStage(t, deterministic)
			o.GroupSize, o.Concurrency, o.Seed, o.Deterministic = 3, 4, 5, deterministic
			eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(4), o)
			if err != nil || stats.Total != len(eps) || stats.Done != len(eps) {
				t.Fatalf("%d episodes, stats %+v, %v", len(eps), stats, err)
			}
			return eps
		}
		all := play(Options{})
		skip := func(uid string, sample int) bool { return uid == "0/fake/fake_1" || sample == 2 }
		var want []*data.Episode
		for _, ep := range all {
			if !skip(ep.UID, ep.Sample) {
				want = append(want, ep)
			}
		}
		got := play(Options{Skip: skip})
		waves := cmpopts.IgnoreFields(data.Episode{}, "Wave", "WaveSize")
		if diff := cmp.Diff(want, got, sameButTimes, waves); diff != "" || len(got) != 6 {
			t.Errorf("%d episodes, want 6 (-want +got):\n%s", len(got), diff)
		}
		if none := play(Options{Skip: func(string, int) bool { return true }}); len(none) != 0 {
			t.Errorf("%d episodes were played, want 0: all were skipped", len(none))
		}
	}
}

// TestWaves checks that every final episode is reported in exactly one complete wave, retries
// included.
func TestWaves(t *testing.T) {
	s := newStage(t, true)
	var mu sync.Mutex
	tries := 0
	s.world.reset = func(index int) error {
		mu.Lock()
		defer mu.Unlock()
		if index == 1 {
			if tries++; tries == 1 {
				return errors.New("flaky")
			}
		}
		return nil
	}
	var waves [][]*data.Episode
	eps, _, err := RunEpisodes(t.Context(), s.envs, tasks(5), Options{
		GroupSize: 1, Concurrency: 2, Deterministic: true,
		OnWave: func(wave []*data.Episode) error { waves = append(waves, wave); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	reported := map[string]bool{}
	for n, wave := range waves {
		sizes = append(sizes, len(wave))
		for _, ep := range wave {
			reported[ep.Task.ID] = true
			if ep.Wave != n+1 || ep.WaveSize != len(wave) {
				t.Errorf("%s: wave %d of %d, want %d of %d", ep.Task.ID, ep.Wave, ep.WaveSize, n+1, len(wave))
			}
		}
	}
	if fmt.Sprint(sizes) != "[1 2 2]" || len(reported) != len(eps) {
		t.Errorf("waves of %v episodes, want [1 2 2]; %d of %d episodes were reported", sizes, len(reported), len(eps))
	}

	ctx, cancel := context.WithCancel(t.Context())
	s = newStage(t, true)
	s.world.step = func(context.Context, int, int) error { cancel(); return nil }
	_, _, err = RunEpisodes(ctx, s.envs, tasks(3), Options{
		GroupSize: 1, Concurrency: 3, Deterministic: true,
		OnWave: func(wave []*data.Episode) error {
			t.Errorf("an interrupted wave of %d episodes was reported", len(wave))
			return nil
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestDeterministicBatches checks that in deterministic mode the batches do not depend on the
// environments' delays, also with retries and with fewer instances than concurrent episodes.
func TestDeterministicBatches(t *testing.T) {
	for _, maxLeases := range []int{0, 3} {
		t.Run(fmt.Sprint(maxLeases), func(t *testing.T) {
			var first []string
			var episodes []*data.Episode
			for round := range 4 {
				s := newStage(t, true)
				p, err := pool.New(s.world.spec(), []string{"http://127.0.0.1:1"}, pool.Options{MaxPerServer: maxLeases})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close(context.Background())
				e := s.envs["fake"]
				e.Pool = p
				s.envs["fake"] = e
				var mu sync.Mutex
				rng := rand.New(rand.NewPCG(uint64(round), 1))
				tries := map[int]int{}
				s.world.step = func(_ context.Context, index, step int) error {
					mu.Lock()
					wait := rng.IntN(50)
					fail := false
					if index == 4 && step == 1 {
						tries[index]++
						fail = tries[index] == 1
					}
					mu.Unlock()
					for range wait {
						runtime.Gosched()
					}
					if fail {
						return errors.New("flaky")
					}
					return nil
				}
				eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(9), Options{GroupSize: 1, Concurrency: 4, Deterministic: true, Seed: 11})
				if err != nil {
					t.Fatal(err)
				}
				if stats.Retries != 1 {
					t.Errorf("%d retries, want 1", stats.Retries)
				}
				if maxLeases > 0 && s.world.most > maxLeases {
					t.Errorf("%d instances at once, want at most %d", s.world.most, maxLeases)
				}
				if round == 0 {
					first, episodes = s.model.shapes, eps
					continue
				}
				if diff := cmp.Diff(first, s.model.shapes); diff != "" {
					t.Fatalf("the batches of round 0 and round %d differ:\n%s", round, diff)
				}
				if diff := cmp.Diff(episodes, eps, sameButTimes); diff != "" {
					t.Errorf("the episodes of round 0 and round %d differ:\n%s", round, diff)
				}
			}
		})
	}
}

func TestBadArguments(t *testing.T) {
	s := newStage(t, false)
	_, _, err := RunEpisodes(t.Context(), s.envs, []data.Task{{ID: "x_1", Env: "x"}}, Options{MaxFailed: 2, Attempts: -1})
	for _, want := range []string{"group_size is 0", "concurrency is 0", "attempts is -1", "in [0, 1)", `environment "x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if eps, _, err := RunEpisodes(t.Context(), s.envs, nil, Options{GroupSize: 1, Concurrency: 1}); err != nil || len(eps) != 0 {
		t.Errorf("no tasks: %v, %v", eps, err)
	}
}

// TestOverlongPromptsAreLeftOut checks that FilterOverlong excludes a task with too long a first
// prompt: the task is attempted once and does not count as a failure. Other tasks are played.
func TestOverlongPromptsAreLeftOut(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		s := newStage(t, deterministic)
		e := s.envs["fake"]
		s.world.first = func(_ string, index int) string { return strings.Repeat("x", 1+index%2*40) }
		e.Setup.Options.MaxPrompt, e.Setup.Options.FilterOverlong = 30, true
		s.envs["fake"] = e
		eps, stats, err := RunEpisodes(t.Context(), s.envs, tasks(6), Options{GroupSize: 2, Concurrency: 3, Deterministic: deterministic})
		if err != nil {
			t.Fatal(err)
		}
		for _, ep := range eps {
			if overlong := ep.Task.Index%2 == 1; (ep.Outcome == data.OverlongPrompt) != overlong || ep.Attempts != 1 || !overlong && !ep.Outcome.Trainable() {
				t.Errorf("%s: %s after %d attempts", ep.Task.ID, ep.Outcome, ep.Attempts)
			}
		}
		if stats.Failed != 0 || stats.Retries != 0 || stats.Done != 12 {
			t.Errorf("%+v", stats)
		}
		if m := Metrics(eps); m["episode/outcome/overlong_prompt"] != .5 {
			t.Errorf("overlong share %v", m["episode/outcome/overlong_prompt"])
		}
	}
}

// TestDeal checks that the deals of a rollout together are the whole rollout, and that its limit of failures applies to their
// sum.
func TestDeal(t *testing.T) {
	play := func(index, of int) ([]*data.Episode, Stats) {
		s := newStage(t, true)
		o := Options{GroupSize: 2, Concurrency: 4, Seed: 5, Deterministic: true}
		o.Deal.Index, o.Deal.Of = index, of
		list := tasks(5)
		eps, stats, err := RunEpisodes(t.Context(), s.envs, append(list, list[0]), o)
		if err != nil {
			t.Fatal(err)
		}
		return eps, stats
	}
	all, whole := play(0, 1)
	ids := GroupIDs(append(tasks(5), tasks(1)...), Options{})
	var sum Stats
	var merged []*data.Episode
	parts := make([][]*data.Episode, 4)
	for i := range parts {
		var stats Stats
		parts[i], stats = play(i, len(parts))
		sum.Add(stats)
	}
	for g, uid := range ids {
		for range 2 {
			part := &parts[g%len(parts)]
			if (*part)[0].UID != uid {
				t.Fatalf("part %d has group %s, want %s", g%len(parts), (*part)[0].UID, uid)
			}
			merged, *part = append(merged, (*part)[0]), (*part)[1:]
		}
	}
	waves := cmpopts.IgnoreFields(data.Episode{}, "Wave", "WaveSize")
	if diff := cmp.Diff(all, merged, sameButTimes, waves); diff != "" {
		t.Errorf("the parts differ from the whole rollout (-want +got):\n%s", diff)
	}
	if sum.Total != whole.Total || sum.Tokens != whole.Tokens || sum.SampledTokens != whole.SampledTokens {
		t.Errorf("the parts have %+v, the whole rollout %+v", sum, whole)
	}
	last := &data.Episode{Task: data.Task{ID: "fake_1"}, Outcome: data.EnvError}
	failed := func(n, excluded int) Stats {
		return Stats{Progress: Progress{Total: 10, Failed: n}, Excluded: excluded}
	}
	for _, c := range []struct {
		o    Options
		s    Stats
		fail bool
	}{
		{Options{}, failed(0, 0), false}, {Options{}, failed(9, 0), false}, {Options{}, failed(10, 0), true}, {Options{}, failed(10, 10), false},
		{Options{MaxFailed: 0.3}, failed(3, 0), false}, {Options{MaxFailed: 0.3}, failed(4, 0), true}, {Options{MaxFailed: 0.3}, failed(10, 10), true},
	} {
		if err := CheckFailed(c.o, c.s, last); (err != nil) != c.fail {
			t.Errorf("MaxFailed %g, %+v: %v", c.o.MaxFailed, c.s, err)
		}
	}
}
