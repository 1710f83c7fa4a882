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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/torch"
)

const usage = `Usage: bench [OPTIONS] [speed | grpo | start | latency | int8 | job | shards | shared]

  speed       decoding, prefill, training and conversations of a real model in float32 and bfloat16, alternating between ours and the
              peers, and the share of what the machine allows
  grpo        GRPO steps of a real model, all weights and adapters, ours and TRL's: seconds and memory
  start       the time of a process with one optimiser step of a tiny model, and of one that imports TRL
  int8        decoding of few rows with int8 weights, alternating with bfloat16 weights
  job         the job that --job describes, on any device and in any type of the weights, with its memory; the model needs no
              tokenizer. torch/gpu_check.sh measures a GPU with it
  shards      memory of a rank in a GRPO step of a model with 341 million parameters: 1, 2 and 4 processes, each level of sharding
  shared      decoding of a real model beside busy processes, which the measurement starts, against decoding without them
  latency     many maze episodes against a server that answers late: waiting must overlap with generation

  --full      speed, a GRPO step of 8 prompts with 8 replies each in both types (one turn), start and latency.
              --full grpo measures the step alone; the others are the same without --full
  --quick     speed with smaller jobs and without peers, in three minutes on two idle cores. It compares the shares with those that
              the repository stores; --quick --update stores them

Without a name: speed, then latency. Options may stand anywhere. The result is on stdout. The exit status is 1 if latency is not hidden, or if
--quick finds a share below the stored one by more than its tolerance.
Checks of behaviour: ./build.sh accept help.

`

// errBroken reports that the latency bound is not met.
var errBroken = errors.New("generation does not hide the latency of the environment")

// errSlower reports that a row reaches less of the machine's bound than is stored.
var errSlower = errors.New("the rows above with a problem differ from the stored shares; measure again on an idle machine, and store new shares with --quick --update only if the change is intended")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = measure(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// quickRounds is the number of rounds of --quick unless --rounds is given.
const quickRounds = 2

// options are the parsed command line.
type options struct {
	measurement                    string // one of those in the usage; "": several, see selects
	model, python                  string
	script, llamaScript, trlScript string
	program                        string // path of openmanus
	device                         string
	dtype                          torch.DType
	typed                          bool // dtype was given
	roundsGiven                    bool // rounds was given
	job                            Job
	shards                         *ShardJob // a rank of this job; nil: all jobs
	rows, peers                    *regexp.Regexp
	full, quick, update            bool
	shares                         string // file of the stored shares
	busy                           int    // number of busy processes of the measurement shared
	beBusy                         bool   // be one of them
	threads, rounds                int
	json                           bool
}

// selects reports whether a measurement was chosen, by its name or by leaving the name out.
func (o options) selects(name string) bool {
	if o.measurement != "" {
		return o.measurement == name
	}
	switch name {
	case "speed":
		return true
	case "latency":
		return !o.quick
	}
	return o.full && (name == "grpo" || name == "start")
}

// readers are the measurements that read an option, for options that only some of them read. The help of the option begins with them.
var readers = map[string][]string{
	"dtype":   {"speed", "grpo", "job"},
	"rows":    {"speed"},
	"peers":   {"speed"},
	"device":  {"job"},
	"job":     {"job"},
	"busy":    {"shared"},
	"full":    {"speed", "grpo", "start", "latency"},
	"threads": {"speed", "grpo", "start", "int8", "job", "shared"},
	"rounds":  {"speed", "grpo", "start", "latency", "int8", "job", "shared"},
}

// checkRead refuses an option that none of the selected measurements reads.
func (o options) checkRead(f *flag.FlagSet) (err error) {
	f.Visit(func(given *flag.Flag) {
		if names, ok := readers[given.Name]; ok && !slices.ContainsFunc(names, o.selects) {
			err = fmt.Errorf("--%s is an option of %s only", given.Name, strings.Join(names, ", "))
		}
	})
	return err
}

func parse(args []string, log io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	f.Usage = func() {
		fmt.Fprint(log, usage)
		f.PrintDefaults()
	}
	f.StringVar(&o.model, "model", "build/models/SmolLM2-135M-Instruct.gguf", "the real model, a .gguf `FILE`")
	f.StringVar(&o.python, "peer", "", "`PYTHON` that has transformers; empty: measure ours alone")
	f.StringVar(&o.script, "script", "bench/peer_transformers.py", "the peer's `FILE`")
	f.StringVar(&o.llamaScript, "llama-script", "bench/peer_llamacpp.py", "speed: the `FILE` of the peer llama.cpp")
	f.StringVar(&o.trlScript, "trl-script", "bench/peer_trl.py", "grpo: the peer's `FILE`")
	f.StringVar(&o.program, "program", "build/openmanus", "speed, grpo, start: the `FILE` of openmanus")
	f.StringVar(&o.device, "device", "cpu", "the `DEVICE`, cpu, cuda or cuda:N")
	f.Func("dtype", "the `TYPE`, float32 or bfloat16 (default in speed and grpo --full: both, otherwise float32); without AVX-512, transformers takes about 27 times as long as openmanus to train in bfloat16", func(s string) (err error) {
		o.typed = true
		o.dtype, err = torch.ParseDType(s)
		return err
	})
	f.Func("rows", "only rows whose name matches the `PATTERN`, such as 'decode, 8'", func(s string) (err error) {
		o.rows, err = regexp.Compile(s)
		return err
	})
	f.Func("peers", "only peers whose name matches the `PATTERN`, such as 'llama'", func(s string) (err error) {
		o.peers, err = regexp.Compile(s)
		return err
	})
	f.BoolVar(&o.full, "full", false, "a GRPO step of 8 prompts with 8 replies; without a name, all of these")
	f.BoolVar(&o.quick, "quick", false, "compare shares with the stored ones, without peers")
	f.BoolVar(&o.update, "update", false, "quick: store the measured shares")
	f.StringVar(&o.shares, "shares", "bench/shares.json", "quick: the `FILE` of the stored shares")
	f.Func("job", `a `+"`JSON`"+` object such as {"name": "decode, 8 rows", "kind": "decode", "batch": 8, "context": 128, "new": 48}; kinds: prefill, decode, turns, train`, func(s string) error {
		d := json.NewDecoder(strings.NewReader(s))
		d.DisallowUnknownFields()
		return d.Decode(&o.job)
	})
	f.Func("shards", "shards: be a rank of a job, a `JSON` object; `bench shards` starts the ranks", func(s string) error {
		o.shards = &ShardJob{}
		return json.Unmarshal([]byte(s), o.shards)
	})
	f.IntVar(&o.busy, "busy", busyByDefault(), "`NUMBER` of busy processes")
	f.BoolVar(&o.beBusy, "be-busy", false, "shared: be a busy process until the end of stdin; `bench shared` starts them")
	f.IntVar(&o.threads, "threads", torch.NumThreads(), "CPU threads on both sides")
	f.IntVar(&o.rounds, "rounds", 3, "measured runs on every side, with --quick 2: speed, start, int8, job and shared report the median, latency the fastest; grpo: turns of three steps, with --full one turn; the median of the last two steps of all turns counts")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	f.VisitAll(func(flag *flag.Flag) {
		if names := readers[flag.Name]; names != nil {
			flag.Usage = strings.Join(names, ", ") + ": " + flag.Usage
		}
	})
	for err = f.Parse(args); err == nil && f.NArg() > 0; err = f.Parse(f.Args()[1:]) {
		if o.measurement != "" {
			return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
		}
		o.measurement = f.Arg(0)
	}
	if err != nil {
		return o, err
	}
	if o.roundsGiven = given(f, "rounds"); o.quick && !o.roundsGiven {
		o.rounds = quickRounds
	}
	switch o.measurement {
	case "", "speed", "grpo", "start", "latency", "int8", "shards", "shared":
	case "job":
		if o.job.Kind == "" {
			return o, errors.New("job needs --job")
		}
	default:
		return o, fmt.Errorf("unknown measurement %s; bench --help lists them", o.measurement)
	}
	switch {
	case o.quick && (o.full || !o.selects("speed")):
		return o, errors.New("--quick measures speed alone; leave out --full and other measurements")
	case o.quick && o.peers != nil:
		return o, errors.New("--quick measures without peers; leave out --peers")
	case o.peers != nil && o.python == "":
		return o, errors.New("--peers needs --peer, the Python that has the peers")
	case o.update && !o.quick:
		return o, errors.New("--update needs --quick")
	}
	if o.threads < 1 || o.rounds < 1 || o.busy < 1 {
		return o, errors.New("--threads, --rounds and --busy must be at least 1")
	}
	return o, o.checkRead(f)
}

// given reports whether the command line has the option.
func given(f *flag.FlagSet, name string) (found bool) {
	f.Visit(func(g *flag.Flag) { found = found || g.Name == name })
	return found
}

// measure runs the selected measurements and reports them.
func measure(ctx context.Context, o options, out, log io.Writer) error {
	if o.shards != nil {
		return runShardRank(ctx, *o.shards, out)
	}
	if o.beBusy {
		return beBusy(os.Stdin)
	}
	torch.SetNumThreads(o.threads)
	r := report{Threads: o.threads, Rounds: o.rounds, CPU: torch.InstructionSet()}
	var stored Shares
	var err error
	if o.quick {
		stored, err = openShares(o, r.CPU)
	}
	if err == nil && o.selects("speed") {
		err = r.measureSpeed(ctx, o, log)
	}
	if err == nil && o.quick {
		err = r.checkShares(o, stored)
	}
	if err == nil && o.selects("grpo") {
		err = inFolder(func(dir string) error { return r.measureGRPO(ctx, o, dir, log) })
	}
	if err == nil && o.selects("start") {
		fmt.Fprintln(log, "measuring the start")
		err = inFolder(func(dir string) error {
			s, err := measureStart(ctx, o, dir)
			r.Start = &s
			return err
		})
	}
	if err == nil && o.measurement == "int8" {
		err = r.measureInt8(ctx, o, int8Jobs(), log)
	}
	if err == nil && o.measurement == "job" {
		err = r.measureJob(ctx, o)
	}
	if err == nil && o.measurement == "shards" {
		r.Shards, err = measureShards(ctx, shardJobs(), log)
	}
	if err == nil && o.measurement == "shared" {
		r.Shared, err = measureShared(ctx, o, log)
	}
	if err == nil && o.selects("latency") {
		fmt.Fprintln(log, "measuring latency")
		// The tiny model gains nothing from a second thread. A thread that waits
		// for a busy core would distort the measurement.
		torch.SetNumThreads(1)
		var l Latency
		l, err = measureLatency(ctx, LatencyOptions{Episodes: 64, Turns: 15, Pause: 200 * time.Millisecond, Rounds: o.rounds})
		r.Latency = &l
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
	switch {
	case err != nil:
		return err
	case !r.hidden():
		return errBroken
	case !r.kept():
		return errSlower
	}
	return nil
}

// inFolder calls f with a new folder and removes the folder afterwards.
func inFolder(f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "openmanus-runs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

// measureJob runs one job on a device and adds the memory that it took.
func (r *report) measureJob(ctx context.Context, o options) error {
	ours, err := OpenOurs(ctx, o.model, o.device, o.dtype, []Job{o.job})
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	c, err := compare(ctx, o.job, ours, nil, o.rounds, longRun, nil)
	if err != nil {
		return err
	}
	c.Type = o.dtype.String()
	r.Speed = []Comparison{c}
	r.Memory, err = ours.memory()
	return err
}

// turns is the number of turns of GRPO steps. A turn with --full takes minutes.
func (o options) turns() int {
	if o.full && !o.roundsGiven {
		return 1
	}
	return o.rounds
}

// measureGRPO runs the GRPO steps. With --full it measures the machine before them and adds the bounds.
func (r *report) measureGRPO(ctx context.Context, o options, dir string, log io.Writer) error {
	trials, err := chosenTrials(o)
	if err != nil {
		return err
	}
	o.rounds = o.turns()
	bounds := map[torch.DType]func(GRPOTrial) float64{}
	for _, t := range trials {
		if !o.full || bounds[t.Type] != nil {
			continue
		}
		work, m, err := machineFor(ctx, o, t.Type)
		if err != nil {
			return err
		}
		bounds[t.Type] = func(t GRPOTrial) float64 { return t.bound(work, m, t.Ours.PromptTokens/t.rows()) }
	}
	g, err := measureGRPO(ctx, o, trials, dir, log)
	if err != nil {
		return err
	}
	for i := range g.Trials {
		t := &g.Trials[i]
		if f := bounds[t.Type]; f != nil {
			t.Bound = f(*t)
			t.Share = t.Bound / t.Ours.Seconds
		}
	}
	r.GRPO = &g
	return nil
}

// machineFor measures the machine and returns it with the work of the model.
func machineFor(ctx context.Context, o options, dt torch.DType) (Work, Machine, error) {
	m := Machine{dtype: dt}
	ours, err := OpenOurs(ctx, o.model, "cpu", dt, []Job{{Kind: Train, Batch: 1}})
	if err != nil {
		return Work{}, m, fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	for range o.rounds {
		if err := m.probe(ctx, ours.thread); err != nil {
			return Work{}, m, err
		}
	}
	return ours.work(dt), m, nil
}
