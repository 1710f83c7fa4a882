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
	"strings"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/torch"
)

const usage = `Usage: bench [OPTIONS] [speed | grpo | latency | job | shards | shared]

  speed       decoding, prefill, conversations and training of a real model, alternating between ours and the peer's
  grpo        GRPO steps of a real model, all weights and adapters, ours and TRL's: seconds and memory
  job         the job that --job describes, on any device and in any type of the weights, with its memory; the model needs no
              tokenizer. torch/gpu_check.sh measures a GPU with it
  shards      memory of a rank in a GRPO step of a model with 341 million parameters: 1, 2 and 4 processes, each level of sharding
  shared      decoding of a real model beside busy processes, which the measurement starts, against decoding without them
  latency     many maze episodes against a server that answers late: waiting must overlap with generation

Without a name: speed, then latency. Options may stand anywhere. The result is on stdout; the exit status is 1 if latency is not hidden.
Checks of behaviour: ./build.sh accept help.

`

// errBroken reports that the latency bound is not met.
var errBroken = errors.New("generation does not hide the latency of the environment")

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

// options are the parsed command line.
type options struct {
	measurement       string // speed, grpo, latency, job, shards or shared; "": speed and latency
	model, python     string
	script, trlScript string
	program           string // path of openmanus
	device            string
	dtype             torch.DType
	job               Job
	shards            *ShardJob // a rank of this job; nil: all jobs
	busy              int       // number of busy processes of the measurement shared
	beBusy            bool      // be one of them
	threads, rounds   int
	json              bool
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
	f.StringVar(&o.trlScript, "trl-script", "bench/peer_trl.py", "grpo: the peer's `FILE`")
	f.StringVar(&o.program, "program", "build/openmanus", "grpo: the `FILE` of openmanus")
	f.StringVar(&o.device, "device", "cpu", "job: the `DEVICE`, cpu, cuda or cuda:N")
	f.Func("dtype", "job: the `TYPE` of the weights, float32 or bfloat16 (default float32)", func(s string) (err error) {
		o.dtype, err = torch.ParseDType(s)
		return err
	})
	f.Func("job", `job: a `+"`JSON`"+` object such as {"name": "decode, 8 rows", "kind": "decode", "batch": 8, "context": 128, "new": 48}; kinds: prefill, decode, turns, train`, func(s string) error {
		d := json.NewDecoder(strings.NewReader(s))
		d.DisallowUnknownFields()
		return d.Decode(&o.job)
	})
	f.Func("shards", "shards: be a rank of a job, a `JSON` object; `bench shards` starts the ranks", func(s string) error {
		o.shards = &ShardJob{}
		return json.Unmarshal([]byte(s), o.shards)
	})
	f.IntVar(&o.busy, "busy", busyByDefault(), "shared: `NUMBER` of busy processes")
	f.BoolVar(&o.beBusy, "be-busy", false, "shared: be a busy process until the end of stdin; `bench shared` starts them")
	f.IntVar(&o.threads, "threads", torch.NumThreads(), "speed, grpo, shared: CPU threads on both sides")
	f.IntVar(&o.rounds, "rounds", 3, "speed, latency: measured runs on either side, of which the fastest counts; grpo: turns of three steps on either side, whose median counts; shared: the median counts")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	for err = f.Parse(args); err == nil && f.NArg() > 0; err = f.Parse(f.Args()[1:]) {
		if o.measurement != "" {
			return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
		}
		o.measurement = f.Arg(0)
	}
	if err != nil {
		return o, err
	}
	switch o.measurement {
	case "", "speed", "grpo", "latency", "shards", "shared":
	case "job":
		if o.job.Kind == "" {
			return o, errors.New("job needs --job")
		}
	default:
		return o, fmt.Errorf("unknown measurement %s; bench --help lists them", o.measurement)
	}
	if o.threads < 1 || o.rounds < 1 || o.busy < 1 {
		return o, errors.New("--threads, --rounds and --busy must be at least 1")
	}
	return o, nil
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
	r := report{Threads: o.threads, Rounds: o.rounds}
	var err error
	if o.measurement == "" || o.measurement == "speed" {
		err = r.measureSpeed(ctx, o, log)
	}
	if err == nil && o.measurement == "grpo" {
		err = r.measureGRPO(ctx, o, log)
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
	if err == nil && (o.measurement == "" || o.measurement == "latency") {
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
	if err == nil && !r.kept() {
		err = errBroken
	}
	return err
}

// measureSpeed runs the default jobs on both sides and compares the speed.
func (r *report) measureSpeed(ctx context.Context, o options, log io.Writer) (err error) {
	jobs := workload()
	ours, err := OpenOurs(ctx, o.model, "cpu", torch.Float32, jobs)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	var peer Side
	if o.python != "" {
		fmt.Fprintln(log, "loading the peer")
		p, err := OpenPeer(ctx, []string{o.python, o.script}, o.model, o.threads, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		peer, r.Peer = p, &p.Versions
	}
	for _, j := range jobs {
		fmt.Fprintln(log, "measuring", j.Name)
		c, err := compare(ctx, j, ours, peer, o.rounds)
		if err != nil {
			return err
		}
		r.Speed = append(r.Speed, c)
	}
	return nil
}

// measureJob runs one job on a device and adds the memory that it took.
func (r *report) measureJob(ctx context.Context, o options) error {
	ours, err := OpenOurs(ctx, o.model, o.device, o.dtype, []Job{o.job})
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	c, err := compare(ctx, o.job, ours, nil, o.rounds)
	if err != nil {
		return err
	}
	r.Speed = []Comparison{c}
	r.Memory, err = ours.memory()
	return err
}

func (r *report) measureGRPO(ctx context.Context, o options, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "openmanus-runs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := measureGRPO(ctx, o, dir, log)
	r.GRPO = &g
	return err
}
