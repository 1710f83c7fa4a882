package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/proxy"
)

// What the quickstart promises behind a proxy that makes a share of all
// requests fail in every way there is.
const (
	mildShare   = 0.01 // success is what it is without faults, within closeEnough
	harshShare  = 0.05 // the run finishes
	closeEnough = 0.05

	// What a call may take, in seconds: the cost of a hang. At the mild share
	// there are few, and a busy machine must not make a healthy call look like
	// one; at the harsh share there are hundreds in an episode of many turns.
	mildPatience, harshPatience = 5, 2
	// walksPerStep keeps the reading of a shortened run in proportion.
	walksPerStep = 29
	// replays lets an episode of twenty turns get through at the harsh share.
	replays = 2000
)

// Faults compares quickstarts with and without faults.
type Faults struct {
	Runs   []FaultRun `json:"runs"`
	Clean  float64    `json:"success_without"` // mean over the seeds
	Mild   float64    `json:"success_mild"`
	Judged bool       `json:"judged"` // the runs were long enough to compare success
	Close  bool       `json:"close"`
	Honest bool       `json:"honest"` // counts agree, and nothing that was dropped entered an update
}

// FaultRun is one quickstart.
type FaultRun struct {
	Seed     int              `json:"seed"`
	Share    float64          `json:"share"` // of requests, for each kind of fault
	Before   float64          `json:"before"`
	After    float64          `json:"after"`
	Seconds  float64          `json:"seconds"`
	Requests int64            `json:"requests"`
	Injected map[string]int64 `json:"injected"` // by the names under which clients count
	Seen     map[string]int64 `json:"seen"`
	Dropped  int              `json:"dropped"` // training episodes
	Replays  int              `json:"replays"`
	Faulty   []string         `json:"faulty,omitempty"` // promises that were not kept
}

// faultsAt is the plan of a proxy: every kind at the same share.
func faultsAt(share float64, seed int) string {
	return fmt.Sprintf("500:%[1]g,hang:%[1]g,slow:200ms:%[1]g,truncate:%[1]g,reset:%[1]g,duplicate:%[1]g,seed=%[2]d", share, seed)
}

// measureFaults runs the quickstart with the seeds 1 to n without faults and at
// the mild share, and once at the harsh one. steps, if not 0, shortens them.
func measureFaults(ctx context.Context, program, dir string, n, steps int, says io.Writer) (f Faults, err error) {
	f.Judged = steps == 0
	for _, share := range []float64{0, mildShare, harshShare} {
		for seed := 1; seed <= n; seed++ {
			if share == harshShare && seed > 1 {
				break
			}
			out := filepath.Join(dir, fmt.Sprintf("share_%g_seed_%d", share, seed))
			if _, err := os.Stat(out); err == nil {
				return f, fmt.Errorf("%s is there already, and its run would not be done again: give --runs another folder", out)
			}
			r, err := faultRun(ctx, program, out, share, seed, steps)
			if err != nil {
				return f, fmt.Errorf("share %g, seed %d: %w", share, seed, err)
			}
			fmt.Fprintf(says, "faults %g, seed %d: %.3f before, %.3f after, %d requests, %d replays, %d dropped, %.0f s\n",
				share, seed, r.Before, r.After, r.Requests, r.Replays, r.Dropped, r.Seconds)
			f.Runs = append(f.Runs, r)
		}
	}
	f.judge()
	return f, nil
}

// faultRun is one quickstart behind a proxy of its own; without faults there is
// none.
func faultRun(ctx context.Context, program, out string, share float64, seed, steps int) (r FaultRun, err error) {
	r = FaultRun{Seed: seed, Share: share}
	args := []string{"train", "--set", fmt.Sprintf("trainer.seed=%d", seed), "--set", "trainer.output_dir=" + out}
	if steps > 0 {
		args = append(args, "--set", fmt.Sprintf("trainer.total_steps=%d", steps), "--set", fmt.Sprintf("model.fresh.walks=%d", walksPerStep*steps))
	}
	counts := func() (c proxy.Counts, err error) { return c, nil }
	if share > 0 {
		server, err := startChild(ctx, []string{program}, "env", "serve", "maze", "--port", "0")
		if err != nil {
			return r, err
		}
		defer server.stop()
		journal := out + ".faults.jsonl"
		p, err := startChild(ctx, []string{program}, "env", "proxy", "--upstream", server.URL, "--port", "0", "--fault", faultsAt(share, seed), "--log", journal)
		if err != nil {
			return r, err
		}
		defer p.stop()
		patience := mildPatience
		if share > mildShare {
			patience = harshPatience
		}
		counts = func() (proxy.Counts, error) { return askCounts(ctx, p.URL) }
		args = append(args, "--set", "env.maze.servers="+p.URL, "--set", fmt.Sprintf("env.maze.timeout_s=%d", patience),
			"--set", fmt.Sprintf("agent.episode_replays=%d", replays))
	}
	if r.Seconds, err = trainRun(ctx, program, args); err != nil {
		return r, err
	}
	c, err := counts()
	if err != nil {
		return r, err
	}
	r.Requests, r.Injected = c.Requests, map[string]int64{}
	for kind, n := range c.Faults {
		r.Injected[proxy.SeenAs(kind)] += int64(n)
	}
	if c.UpstreamErrors > 0 {
		r.Faulty = append(r.Faulty, fmt.Sprintf("the server itself failed %d times", c.UpstreamErrors))
	}
	return r, r.look(filepath.Join(out, "quickstart"))
}

// trainRun runs openmanus and gives its words where it fails.
func trainRun(ctx context.Context, program string, args []string) (seconds float64, err error) {
	began := time.Now()
	text, err := command(ctx, program, args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, text)
	}
	return time.Since(began).Seconds(), nil
}

// askCounts asks a proxy what it has done.
func askCounts(ctx context.Context, url string) (c proxy.Counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+proxy.CountsPath, nil)
	if err != nil {
		return c, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		return c, fmt.Errorf("counts of the proxy: %w", err)
	}
	return c, nil
}

// look reads what the run wrote: how it went, what it counted, and whether an
// episode that was given up entered an update.
func (r *FaultRun) look(run string) error {
	metrics := filepath.Join(run, "metrics.jsonl")
	f, err := os.Open(metrics)
	if err != nil {
		return err
	}
	r.Before, r.After, err = validations(f)
	f.Close()
	if err != nil {
		return err
	}
	r.Seen = map[string]int64{}
	err = track.Read(metrics, func(step int, m track.Metrics) error {
		for name, x := range m {
			if seen, ok := strings.CutPrefix(name, track.ServerFaults+"/"); ok {
				r.Seen[seen] += int64(x)
			}
		}
		if _, ok := m["rollout/dropped"]; !ok || step == 0 {
			return nil
		}
		r.Dropped += int(m["rollout/dropped"])
		r.Replays += int(m["rollout/replays"])
		kept, lost, err := sampledTokens(filepath.Join(run, "rollouts", fmt.Sprintf("step_%d.jsonl", step)))
		if err != nil {
			return err
		}
		if lost != int(m["rollout/dropped"]) || kept != int(m[track.StateTokens]) {
			r.Faulty = append(r.Faulty, fmt.Sprintf("step %d: %g tokens entered the update, of the episodes that were kept are %d; %g episodes were dropped, %d are in the file",
				step, m[track.StateTokens], kept, m["rollout/dropped"], lost))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !maps.Equal(r.Injected, r.Seen) {
		r.Faulty = append(r.Faulty, fmt.Sprintf("injected %s; seen %s", inOrder(r.Injected), inOrder(r.Seen)))
	}
	return nil
}

// sampledTokens counts the tokens with mask 1 of the episodes of a step that
// may be trained on, and the episodes that may not.
func sampledTokens(dump string) (tokens, lost int, err error) {
	d, err := data.OpenDump(dump)
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	for {
		ep, err := d.Next()
		switch {
		case errors.Is(err, io.EOF):
			return tokens, lost, nil
		case err != nil:
			return 0, 0, err
		case ep.Outcome.Trainable():
			tokens += ep.SampledTokens()
		default:
			lost++
		}
	}
}

func inOrder(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

func (f *Faults) judge() {
	n := map[float64]float64{}
	sum := map[float64]float64{}
	f.Honest = true
	for _, r := range f.Runs {
		n[r.Share]++
		sum[r.Share] += r.After
		f.Honest = f.Honest && len(r.Faulty) == 0
	}
	f.Clean, f.Mild = sum[0]/n[0], sum[mildShare]/n[mildShare]
	f.Close = math.Abs(f.Clean-f.Mild) <= closeEnough+1e-9
}

func (f *Faults) kept() bool { return f.Honest && (f.Close || !f.Judged) }

func (f *Faults) print(w io.Writer) {
	fmt.Fprintf(w, "\nfaults: the quickstart behind a proxy, every kind of fault at the same share of requests\n")
	for _, r := range f.Runs {
		fmt.Fprintf(w, "  %3g %%  seed %d   %.3f before   %.3f after   %6d requests   %5d replays   %3d dropped   %5.0f s\n",
			100*r.Share, r.Seed, r.Before, r.After, r.Requests, r.Replays, r.Dropped, r.Seconds)
		if r.Share > 0 {
			fmt.Fprintf(w, "         %s\n", inOrder(r.Injected))
		}
		for _, what := range r.Faulty {
			fmt.Fprintf(w, "         NOT kept: %s\n", what)
		}
	}
	fmt.Fprintf(w, "  the proxy's counts are the clients', and nothing dropped was learned from: %s\n", verdict(f.Honest))
	what := "not judged, the runs are shortened"
	if f.Judged {
		what = verdict(f.Close)
	}
	fmt.Fprintf(w, "  success %.3f without faults, %.3f at %g %%, at most %.2f apart wanted: %s\n", f.Clean, f.Mild, 100*mildShare, closeEnough, what)
}
