package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/proxy"
)

// Shares of requests that fail, for each kind of fault, and the bounds of the check.
const (
	mildShare   = 0.01 // success must stay within closeEnough of a run without faults
	harshShare  = 0.05 // the run must finish
	closeEnough = 0.05

	// Timeouts of a call in seconds. At mildShare, hangs are few, so the timeout
	// is long: a slow call on a busy machine must not count as a hang. At harshShare,
	// an episode of many turns has several hangs, so the timeout is short.
	mildPatience, harshPatience = 5, 2
	// walksPerStep is the number of random pretraining walks per training step of a shortened run.
	walksPerStep = 29
)

// Faults compares quickstarts with and without faults.
type Faults struct {
	Runs   []FaultRun `json:"runs"`
	Clean  float64    `json:"success_without"` // mean over the seeds
	Mild   float64    `json:"success_mild"`
	Judged bool       `json:"judged"` // success can be compared (see judgesSuccess)
	Close  bool       `json:"close"`
	Honest bool       `json:"honest"` // the metrics count the injected faults, and no dropped episode entered an update
}

// FaultRun is the result of one quickstart.
type FaultRun struct {
	Seed     int              `json:"seed"`
	Share    float64          `json:"share"` // share of the requests, for each kind of fault
	Before   float64          `json:"before"`
	After    float64          `json:"after"`
	Seconds  float64          `json:"seconds"`
	Requests int64            `json:"requests"`
	PerTurn  float64          `json:"requests_per_turn"` // requests per turn of the training episodes
	Injected map[string]int64 `json:"injected"`          // injected faults by metric name
	Seen     map[string]int64 `json:"seen"`
	Dropped  int              `json:"dropped"` // dropped training episodes
	Replays  int              `json:"replays"`
	Faulty   []string         `json:"faulty,omitempty"` // violated bounds
}

// faultsAt returns the settings of a proxy that injects every kind of fault at the same share.
func faultsAt(share float64, seed int) string {
	return fmt.Sprintf("500:%[1]g,hang:%[1]g,slow:200ms:%[1]g,truncate:%[1]g,reset:%[1]g,duplicate:%[1]g,seed=%[2]d", share, seed)
}

// judgesSuccess reports whether success with and without faults can be compared:
// the runs are complete quickstarts, with the share 0 and with mildShare.
func (o *options) judgesSuccess() bool {
	return o.steps == 0 && len(o.sets) == 0 && slices.Contains(o.rates, 0) && slices.Contains(o.rates, mildShare)
}

// faultRuns lists the runs, longest first, so that the last run is a short one.
// Shares above mildShare get one seed.
func (o *options) faultRuns() (list []FaultRun) {
	shares := slices.Sorted(slices.Values(o.rates))
	slices.Reverse(shares)
	for _, share := range shares {
		for seed := 1; seed <= o.seeds && (seed == 1 || share <= mildShare); seed++ {
			list = append(list, FaultRun{Seed: seed, Share: share})
		}
	}
	return list
}

func faultFlags(f *flag.FlagSet, o *options) {
	o.rates = []float64{0, mildShare, harshShare}
	f.Func("rates", "`PERCENT,PERCENT...` share of the requests that fail, for each kind of fault; above 1 there is one run, with seed 1 (default 0,1,5)", func(text string) (err error) {
		o.rates, err = percents(text)
		return err
	})
	f.IntVar(&o.steps, "steps", 0, "steps of a run, which then also reads fewer walks; 0: as many as the quickstart")
	f.Func("set", "`KEY=VALUE`, a setting of the runs in addition to the quickstart's; may be repeated", o.addSet)
}

// percents parses a list of percentages below 100 into shares.
func percents(text string) (shares []float64, err error) {
	for _, part := range strings.Split(text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(x >= 0 && x < 100) {
			return nil, fmt.Errorf("%q is not a percentage from 0 to below 100", part)
		}
		if slices.Contains(shares, x/100) {
			return nil, fmt.Errorf("%s is listed twice", part)
		}
		shares = append(shares, x/100)
	}
	return shares, nil
}

func runFaults(ctx context.Context, o *options, _ []string, log io.Writer) (result, error) {
	return inFolder(o.keep, func(dir string) (result, error) { return measureFaults(ctx, o.program, dir, o, log) })
}

// measureFaults starts the runs of o, several at a time, because runs with faults
// spend most of their time waiting for requests that hang.
func measureFaults(ctx context.Context, program, dir string, o *options, log io.Writer) (*Faults, error) {
	f := &Faults{Judged: o.judgesSuccess(), Runs: o.faultRuns()}
	for _, r := range f.Runs {
		if err := unused(r.folder(dir)); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex // guards log
	err := several(ctx, len(f.Runs), o.jobs, func(ctx context.Context, i, threads int) error {
		r := &f.Runs[i]
		if err := r.run(ctx, program, r.folder(dir), o, threads); err != nil {
			return fmt.Errorf("share %g, seed %d: %w", r.Share, r.Seed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(log, "faults %g, seed %d: %.3f before, %.3f after, %d requests, %.2f a turn, %d replays, %d dropped, %.0f s\n",
			r.Share, r.Seed, r.Before, r.After, r.Requests, r.PerTurn, r.Replays, r.Dropped, r.Seconds)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.judge()
	return f, nil
}

// folder returns the output folder of the run.
func (r *FaultRun) folder(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("share_%g_seed_%d", r.Share, r.Seed))
}

// run trains behind a proxy. Without faults the proxy only counts requests.
func (r *FaultRun) run(ctx context.Context, program, out string, o *options, threads int) error {
	server, err := startServer(ctx, nil, program, "env", "serve", "maze", "--port", "0")
	if err != nil {
		return err
	}
	defer server.stop()
	journal := out + ".faults.jsonl"
	proxied := []string{"env", "proxy", "--upstream", server.URL, "--port", "0", "--log", journal}
	if r.Share > 0 {
		proxied = append(proxied, "--fault", faultsAt(r.Share, r.Seed))
	}
	p, err := startServer(ctx, nil, program, proxied...)
	if err != nil {
		return err
	}
	defer p.stop()
	sets := []string{"env.maze.servers=" + p.URL}
	if r.Share > 0 {
		patience := mildPatience
		if r.Share > mildShare {
			patience = harshPatience
		}
		sets = append(sets, fmt.Sprintf("env.maze.timeout_s=%d", patience))
	}
	if o.steps > 0 {
		sets = append(sets, fmt.Sprintf("trainer.total_steps=%d", o.steps), fmt.Sprintf("model.fresh.walks=%d", walksPerStep*o.steps))
	}
	metrics, seconds, err := trainSeed(ctx, program, out, r.Seed, threads, append(sets, o.sets...))
	if err != nil {
		return err
	}
	r.Seconds = seconds
	c, err := fetchCounts(ctx, p.URL)
	if err != nil {
		return err
	}
	r.Requests, r.Injected = c.Requests, map[string]int64{}
	for kind, n := range c.Faults {
		r.Injected[proxy.SeenAs(kind)] += int64(n)
	}
	if c.UpstreamErrors > 0 {
		r.Faulty = append(r.Faulty, fmt.Sprintf("the server itself failed %d times", c.UpstreamErrors))
	}
	return r.readRun(filepath.Dir(metrics))
}

// fetchCounts returns the counts of a proxy.
func fetchCounts(ctx context.Context, url string) (c proxy.Counts, err error) {
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
		return c, fmt.Errorf("read the counts of the proxy: %w", err)
	}
	return c, nil
}

// readRun fills r from the files of the run and checks that no dropped episode
// entered an update.
func (r *FaultRun) readRun(run string) error {
	metrics := filepath.Join(run, "metrics.jsonl")
	f, err := os.Open(metrics)
	if err != nil {
		return err
	}
	found, err := validations(f)
	f.Close()
	if err != nil {
		return err
	}
	r.Before, r.After = found[0].Success, found[len(found)-1].Success
	r.Seen = map[string]int64{}
	var requests, turns float64
	err = track.Read(metrics, func(l track.Line) error {
		step, m := l.Step, l.Metrics
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
		if _, ok := m["val/maze/success_rate"]; !ok { // the metrics of a step with a validation also count requests of the validation
			requests += m[track.Servers+"requests"]
			turns += m["rollout/turns"]
		}
		kept, lost, err := sampledTokens(filepath.Join(run, "rollouts", fmt.Sprintf("step_%d.jsonl", step)))
		if err != nil {
			return err
		}
		if lost != int(m["rollout/dropped"]) || kept != int(m[track.StateTokens]) {
			r.Faulty = append(r.Faulty, fmt.Sprintf("step %d: %g tokens entered the update, but kept episodes have %d; %g episodes were dropped, but the file has %d",
				step, m[track.StateTokens], kept, m["rollout/dropped"], lost))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if turns > 0 {
		r.PerTurn = requests / turns
	}
	if !maps.Equal(r.Injected, r.Seen) {
		r.Faulty = append(r.Faulty, fmt.Sprintf("injected %s; seen %s", inOrder(r.Injected), inOrder(r.Seen)))
	}
	return nil
}

// sampledTokens returns the number of sampled tokens in the trainable episodes of
// a step, and the number of episodes that are not trainable.
func sampledTokens(path string) (tokens, lost int, err error) {
	episodes, err := dump.ReadFile(path)
	for _, ep := range episodes {
		if ep.Outcome.Trainable() {
			tokens += ep.SampledTokens()
		} else {
			lost++
		}
	}
	return tokens, lost, err
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
	if f.Judged {
		f.Clean, f.Mild = sum[0]/n[0], sum[mildShare]/n[mildShare]
		f.Close = math.Abs(f.Clean-f.Mild) <= closeEnough+1e-9
	}
}

func (f *Faults) kept() bool { return f.Honest && (f.Close || !f.Judged) }

func (f *Faults) print(w io.Writer) (err error) {
	fmt.Fprintf(w, "faults: the quickstart behind a proxy that injects every kind of fault at the same share of requests\n")
	for _, r := range f.Runs {
		fmt.Fprintf(w, "  %3g %%  seed %d   %.3f before   %.3f after   %6d requests (%.2f a turn)   %5d replays   %3d dropped   %5.0f s\n",
			100*r.Share, r.Seed, r.Before, r.After, r.Requests, r.PerTurn, r.Replays, r.Dropped, r.Seconds)
		if r.Share > 0 {
			fmt.Fprintf(w, "         %s\n", inOrder(r.Injected))
		}
		for _, what := range r.Faulty {
			fmt.Fprintf(w, "         NOT kept: %s\n", what)
		}
	}
	fmt.Fprintf(w, "  the counts of proxy and clients agree, and no dropped episode entered an update: %s\n", verdict(f.Honest))
	if !f.Judged {
		_, err = fmt.Fprintf(w, "  success is not judged: it needs whole runs without faults and at %g %%\n", 100*mildShare)
		return err
	}
	_, err = fmt.Fprintf(w, "  success %.3f without faults, %.3f at %g %%, difference at most %.2f: %s\n", f.Clean, f.Mild, 100*mildShare, closeEnough, verdict(f.Close))
	return err
}
