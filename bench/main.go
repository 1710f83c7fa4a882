package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/openmanus/openmanus/torch"
)

const usage = `Usage: bench [OPTIONS] [speed | grpo | latency | memory METRICS.jsonl | learning | estimators [NAME...] | entries [WORD...] | faults | crowd | dumps | agentgym [NAME...]]

  speed       decoding, prefill, conversations and training of a real model, ours and the peer's in turns
  grpo        GRPO steps of a real model, all weights and adapters, ours and TRL's: seconds and memory
  latency     many maze episodes against a server that answers late: waiting must overlap with generation
  memory      what a training run held in RAM at two of its steps, from its metrics.jsonl
  learning    the quickstart with several seeds: success on held-out cells before and after
  estimators  the quickstart under PPO, GRPO, RLOO, REINFORCE++ and GiGPO, or those named, with three seeds each
  entries     ten steps of the quickstart's maze under every estimator, loss, KL, reward and correction there is; WORDs choose those whose names hold one
  faults      the quickstart behind a proxy that makes requests fail in every way: what it learns, and what it counts
  crowd       thousands of episodes at once without a model: what a turn costs, and whether anything is left behind
  dumps       rollouts that are killed, continued and replayed: every episode once, and none differs
  agentgym    servers of a checkout of AgentGym: installed, checked, played, and compared with the protocol

Without a name: speed, then latency. Options may stand anywhere. The result is on stdout; the exit status is 1 when a promise is not kept.

`

// errBroken says that a promise was measured and is not kept; the report says
// which.
var errBroken = errors.New("a promise is not kept")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	what              string // "", speed, grpo, latency, memory, learning, estimators, entries, faults, crowd, dumps or agentgym
	model, python     string
	script, trlScript string
	threads, rounds   int
	json              bool

	metrics  string
	from, to int
	limit    float64

	program string // openmanus
	methods []method
	entries []trial
	seeds   int
	steps   int
	rates   []float64 // shares of requests
	sets    []string
	jobs    int
	keep    string // folder of the runs

	episodes  int
	dumpModel string // "": a tiny one

	checkout string
	names    []string // of environments
}

func parse(args []string, says io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(says)
	f.Usage = func() {
		fmt.Fprint(says, usage)
		f.PrintDefaults()
	}
	f.StringVar(&o.model, "model", "build/models/SmolLM2-135M-Instruct.gguf", "the real model, a .gguf `FILE`")
	f.StringVar(&o.python, "peer", "", "`PYTHON` that has transformers; empty: measure ours alone")
	f.StringVar(&o.script, "script", "bench/peer_transformers.py", "the peer's `FILE`")
	f.StringVar(&o.trlScript, "trl-script", "bench/peer_trl.py", "grpo: the peer's `FILE`")
	f.IntVar(&o.threads, "threads", torch.NumThreads(), "speed, grpo: CPU threads on both sides")
	f.IntVar(&o.rounds, "rounds", 3, "measured runs of everything on either side, the fastest counts; grpo: turns of three steps on either side, whose median counts")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	f.IntVar(&o.from, "from", 50, "memory: the first step")
	f.IntVar(&o.to, "to", 200, "memory: the later step")
	f.Float64Var(&o.limit, "limit", 1.05, "memory: the most the later step may hold, as a multiple of the first")
	f.StringVar(&o.program, "program", "build/openmanus", "grpo, learning, estimators, entries, faults, crowd, dumps, agentgym: the `FILE` of openmanus")
	f.IntVar(&o.episodes, "episodes", 0, "dumps, agentgym: episodes of each rollout, at least; 0: 200 for dumps, 20 for agentgym")
	f.IntVar(&o.seeds, "seeds", 0, "learning, estimators, faults: runs, with the seeds 1 to this; 0: 10 for learning, else 3")
	f.IntVar(&o.steps, "steps", 0, "faults: steps of a run, which then reads fewer walks as well; 0: all of the quickstart's")
	f.Func("rates", "faults: `PERCENT,PERCENT...` of all requests that every kind of fault strikes; above 1 there is one run, with seed 1 (default 0,1,5)", func(text string) (err error) {
		o.rates, err = percents(text)
		return err
	})
	f.Func("set", "faults: `KEY=VALUE`, a setting of the runs beside the quickstart's; may be repeated", func(text string) error {
		if !strings.Contains(text, "=") {
			return errors.New("want KEY=VALUE")
		}
		o.sets = append(o.sets, text)
		return nil
	})
	f.IntVar(&o.jobs, "jobs", 2, "estimators, entries, faults: runs at a time, which share the cores")
	f.StringVar(&o.keep, "runs", "", "learning, estimators, entries, faults, agentgym: `FOLDER` for the runs, which must not hold them yet; empty: a temporary one")
	f.StringVar(&o.checkout, "checkout", "", "agentgym: the `FOLDER` of AgentGym, the one that holds agentenv-textcraft and the others")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var rest []string // options may stand anywhere
	for f.NArg() > 0 {
		rest = append(rest, f.Arg(0))
		if err := f.Parse(f.Args()[1:]); err != nil {
			return o, err
		}
	}
	if len(rest) > 0 {
		o.what, rest = rest[0], rest[1:]
	}
	f.Visit(func(set *flag.Flag) {
		if set.Name == "model" { // the tiny one is made, the real one has to be asked for
			o.dumpModel = o.model
		}
	})
	want := 0
	switch o.what {
	case "", "speed", "grpo", "latency", "learning", "faults", "crowd", "dumps":
	case "memory":
		if want = 1; len(rest) > 0 {
			o.metrics = rest[0]
		}
	case "estimators":
		want = len(rest)
		if o.methods, err = methodsNamed(rest); err != nil {
			return o, err
		}
	case "entries":
		want = len(rest)
		if o.entries, err = entriesNamed(rest); err != nil {
			return o, err
		}
	case "agentgym":
		o.names, want = rest, len(rest)
		if err := gymNames(o.names); err != nil {
			return o, err
		}
		if o.checkout, err = checkoutAt(o.checkout); err != nil {
			return o, err
		}
	default:
		return o, fmt.Errorf("there is nothing called %s to measure; bench --help lists what there is", o.what)
	}
	switch {
	case len(rest) > want:
		return o, fmt.Errorf("%q is one argument too many", rest[want])
	case o.checkout != "" && o.what != "agentgym":
		return o, errors.New("--checkout is for agentgym")
	case o.what == "memory" && o.metrics == "":
		return o, errors.New("memory needs the metrics.jsonl of a run")
	case o.threads < 1 || o.rounds < 1 || o.seeds < 0 || o.steps < 0:
		return o, errors.New("--threads and --rounds are at least 1, --seeds and --steps at least 0")
	case o.jobs < 1:
		return o, errors.New("--jobs is at least 1")
	case (o.steps > 0 || o.rates != nil || o.sets != nil) && o.what != "faults":
		return o, errors.New("--steps, --rates and --set are for faults")
	case o.episodes < 0:
		return o, errors.New("--episodes is at least 1")
	case o.episodes > 0 && o.episodes < 20 && o.what != "agentgym":
		return o, errors.New("--episodes is at least 20: a rollout must last until it is killed")
	}
	if o.episodes == 0 {
		o.episodes = map[string]int{"dumps": 200, "agentgym": 20}[o.what]
	}
	if o.seeds == 0 {
		o.seeds = map[string]int{"learning": 10, "estimators": 3, "faults": 3}[o.what]
	}
	return o, nil
}

// percents reads a list of percentages below 100, as shares.
func percents(text string) (shares []float64, err error) {
	for _, part := range strings.Split(text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(x >= 0 && x < 100) {
			return nil, fmt.Errorf("%q is no percentage from 0 to below 100", part)
		}
		if slices.Contains(shares, x/100) {
			return nil, fmt.Errorf("%s is listed twice", part)
		}
		shares = append(shares, x/100)
	}
	return shares, nil
}

// faults are the options of measureFaults.
func (o options) faults() faultsOptions {
	f := faultsOptions{seeds: o.seeds, shares: o.rates, steps: o.steps, sets: o.sets, jobs: o.jobs}
	if f.shares == nil {
		f.shares = faultShares
	}
	return f
}

// run measures and reports.
func run(ctx context.Context, o options, out, says io.Writer) error {
	torch.SetNumThreads(o.threads)
	r := report{Threads: o.threads, Rounds: o.rounds}
	var err error
	if o.what == "" || o.what == "speed" {
		err = r.measureSpeed(ctx, o, says)
	}
	if err == nil && o.what == "grpo" {
		err = inFolder("", func(dir string) (err error) {
			var g GRPO
			g, err = measureGRPO(ctx, o, dir, says)
			r.GRPO = &g
			return err
		})
	}
	if err == nil && (o.what == "" || o.what == "latency") {
		fmt.Fprintln(says, "measuring latency")
		lo := latencyDefaults()
		lo.Rounds = o.rounds
		// The tiny model gains nothing from a second thread, and one that waits
		// for a busy core would be what is measured.
		torch.SetNumThreads(1)
		var l Latency
		l, err = measureLatency(ctx, lo)
		r.Latency = &l
	}
	if err == nil && o.what == "memory" {
		err = r.readMemory(o)
	}
	if err == nil && o.what == "learning" {
		err = r.learn(ctx, o, says)
	}
	if err == nil && o.what == "estimators" {
		err = inFolder(o.keep, func(dir string) (err error) {
			var l Methods
			l, err = measureMethods(ctx, o.program, dir, o.methods, o.seeds, o.jobs, says)
			r.Methods = &l
			return err
		})
	}
	if err == nil && o.what == "entries" {
		err = inFolder(o.keep, func(dir string) (err error) {
			var e Entries
			e, err = measureEntries(ctx, o.program, dir, o.entries, o.jobs, says)
			r.Entries = &e
			return err
		})
	}
	if err == nil && o.what == "dumps" {
		err = r.dump(ctx, o, says)
	}
	if err == nil && o.what == "agentgym" {
		err = r.gym(ctx, o, says)
	}
	if err == nil && o.what == "faults" {
		err = r.fail(ctx, o, says)
	}
	if err == nil && o.what == "crowd" {
		co := crowdDefaults()
		co.Rounds = o.rounds
		var c Crowd
		c, err = measureCrowd(ctx, []string{o.program}, co, says)
		r.Crowd = &c
	}
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(out)
	}
	if err == nil && !r.kept() {
		err = errBroken
	}
	return err
}

// measureSpeed compares the workload.
func (r *report) measureSpeed(ctx context.Context, o options, says io.Writer) (err error) {
	jobs := workload()
	ours, err := OpenOurs(ctx, o.model, jobs)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	var peer Side
	if o.python != "" {
		fmt.Fprintln(says, "loading the peer")
		p, err := OpenPeer(ctx, []string{o.python, o.script}, o.model, o.threads, says)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		peer, r.Peer = p, &p.Versions
	}
	for _, j := range jobs {
		fmt.Fprintln(says, "measuring", j.Name)
		c, err := compare(ctx, j, ours, peer, o.rounds)
		if err != nil {
			return err
		}
		r.Speed = append(r.Speed, c)
	}
	return nil
}

func (r *report) readMemory(o options) error {
	f, err := os.Open(o.metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := measureMemory(f, o.from, o.to, o.limit)
	if err != nil {
		return fmt.Errorf("%s: %w", o.metrics, err)
	}
	r.Memory = &m
	return nil
}

func (r *report) learn(ctx context.Context, o options, says io.Writer) error {
	return inFolder(o.keep, func(dir string) error {
		l, err := measureLearning(ctx, o.program, dir, o.seeds, says)
		r.Learning = &l
		return err
	})
}

func (r *report) fail(ctx context.Context, o options, says io.Writer) error {
	return inFolder(o.keep, func(dir string) error {
		f, err := measureFaults(ctx, o.program, dir, o.faults(), says)
		r.Faults = &f
		return err
	})
}

// inFolder gives f the folder of the runs, or a temporary one.
func inFolder(keep string, f func(dir string) error) (err error) {
	if keep != "" {
		dir, err := filepath.Abs(keep)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return f(dir)
	}
	dir, err := os.MkdirTemp("", "openmanus-runs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

func (r *report) dump(ctx context.Context, o options, says io.Writer) error {
	dir, err := os.MkdirTemp("", "openmanus-dumps-")
	if err != nil {
		return err
	}
	d, err := measureDumps(ctx, o.program, o.dumpModel, dir, o.episodes, says)
	r.Dumps = &d
	return errors.Join(err, os.RemoveAll(dir))
}

func (r *report) gym(ctx context.Context, o options, says io.Writer) error {
	model, err := filepath.Abs(o.model)
	if err != nil {
		return err
	}
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	return inFolder(o.keep, func(dir string) error {
		g, err := measureAgentGym(ctx, gymTrial{program: program, checkout: o.checkout, model: model, dir: dir, episodes: o.episodes, patience: gymPatience, limit: gymLimit, says: says}, o.names)
		r.AgentGym = &g
		return err
	})
}
