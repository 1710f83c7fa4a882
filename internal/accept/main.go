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
	"strings"
	"syscall"
)

// errFailed reports that a check ran and a bound is not met. The report names the
// bound.
var errFailed = errors.New("the check failed")

// command is one check.
type command struct {
	name, args, doc string
	flags           func(*flag.FlagSet, *options) // flags of this check only
	run             func(ctx context.Context, o *options, args []string, log io.Writer) (result, error)
}

// result is the result of a check. --json prints it as JSON.
type result interface {
	kept() bool // all bounds are met
	print(io.Writer) error
}

// commands returns the commands in the order of the usage text.
func commands() []command {
	return []command{
		{"learning", "", "train the quickstart with several seeds; judge success on held-out cells before and after",
			func(f *flag.FlagSet, o *options) { runsFlag(f, o); seedsFlag(f, o, 10) }, runLearning},
		{"learns", "[NAME...]", "train a real model by RL on arithmetic, maze, textcraft and wordle; judge success on held-out tasks",
			learnsFlags, runLearns},
		{"estimators", "[NAME...]", "train the quickstart with PPO, GRPO, RLOO, REINFORCE++ and GiGPO, or the named ones",
			func(f *flag.FlagSet, o *options) { runsFlag(f, o); seedsFlag(f, o, 3); jobsFlag(f, o) }, runEstimators},
		{"entries", "[WORD...]", "train ten steps with every estimator, loss, KL, reward and correction; WORDs select by name",
			func(f *flag.FlagSet, o *options) { runsFlag(f, o); jobsFlag(f, o) }, runEntries},
		{"faults", "", "train the quickstart behind a proxy that injects faults; compare success and counts",
			func(f *flag.FlagSet, o *options) {
				runsFlag(f, o)
				seedsFlag(f, o, 3)
				jobsFlag(f, o)
				faultFlags(f, o)
			}, runFaults},
		{"crowd", "", "play thousands of episodes at once without a model; judge CPU time per turn and leaks",
			func(f *flag.FlagSet, o *options) {
				f.IntVar(&o.rounds, "rounds", 3, "rollouts; the one with the least CPU time counts")
			}, runCrowd},
		{"dumps", "", "kill, continue and replay rollouts; every episode must be there once and replay without a difference",
			func(f *flag.FlagSet, o *options) {
				f.IntVar(&o.episodes, "episodes", 200, "episodes of each rollout, at least 20")
				f.StringVar(&o.model, "model", "", "a model `FILE` or folder; empty: a fresh model of the quickstart's shape")
			}, runDumps},
		{"agentgym", "[NAME...]", "install, check and play the servers of a checkout of AgentGym",
			func(f *flag.FlagSet, o *options) { runsFlag(f, o); gymFlags(f, o) }, runAgentGym},
		{"memory", "METRICS.jsonl", "compare the memory of a training run at two steps",
			func(f *flag.FlagSet, o *options) {
				f.IntVar(&o.from, "from", 50, "the first step")
				f.IntVar(&o.to, "to", 200, "the later step")
				f.Float64Var(&o.limit, "limit", 1.05, "largest allowed ratio of the later step's memory to the first's")
			}, runMemory},
	}
}

// options are the flags of all checks. Each check defines the ones it reads.
type options struct {
	program string // path of openmanus
	json    bool

	keep  string // folder of the runs; empty: a temporary one
	seeds int
	jobs  int

	steps int       // faults: steps of a run
	rates []float64 // faults: shares of requests
	sets  []string  // faults and learns: settings of the runs

	curves string // learns: folder of the pictures

	rounds   int    // for crowd
	episodes int    // for dumps and agentgym
	model    string // for dumps, agentgym and learns
	checkout string // for agentgym

	from, to int // for memory
	limit    float64
}

func runsFlag(f *flag.FlagSet, o *options) {
	f.StringVar(&o.keep, "runs", "", "`FOLDER` for the runs, which must not hold them yet; empty: a temporary one")
}

func seedsFlag(f *flag.FlagSet, o *options, n int) {
	f.IntVar(&o.seeds, "seeds", n, "runs, with the seeds 1 to this number")
}

func jobsFlag(f *flag.FlagSet, o *options) {
	f.IntVar(&o.jobs, "jobs", 2, "runs at a time, which share the cores")
}

// addSet is the function of a flag --set.
func (o *options) addSet(text string) error {
	if !strings.Contains(text, "=") {
		return errors.New("want KEY=VALUE")
	}
	o.sets = append(o.sets, text)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "accept:", err)
		stop()
		os.Exit(1)
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: accept CHECK [OPTIONS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-24s %s\n", c.name+" "+c.args, c.doc)
	}
	fmt.Fprint(w, "\naccept CHECK --help lists its options. The report is on stdout; the exit status is 1 if the check fails.\n")
}

// run runs the check named in args and writes its report to out.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(log)
		return flag.ErrHelp
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.do(ctx, args[1:], out, log)
		}
	}
	usage(log)
	return fmt.Errorf("unknown check %s", args[0])
}

func (c command) do(ctx context.Context, args []string, out, log io.Writer) error {
	o := options{seeds: 1, jobs: 1, rounds: 1}
	f := flag.NewFlagSet(strings.TrimSpace("accept "+c.name+" [OPTIONS] "+c.args), flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.program, "program", "build/openmanus", "the openmanus `FILE` to run")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	c.flags(f, &o)
	names, err := parseAnywhere(f, args)
	if err != nil {
		return err
	}
	if o.seeds < 1 || o.jobs < 1 || o.rounds < 1 || o.steps < 0 {
		return errors.New("--seeds, --jobs and --rounds must be at least 1, --steps at least 0")
	}
	if c.args == "" && len(names) > 0 {
		return fmt.Errorf("%s takes no argument %q", c.name, names[0])
	}
	r, err := c.run(ctx, &o, names, log)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(map[string]any{c.name: r})
	} else {
		err = r.print(out)
	}
	if err == nil && !r.kept() {
		err = errFailed
	}
	return err
}

// parseAnywhere parses args, in which flags may stand before and after other
// arguments, and returns the other arguments.
func parseAnywhere(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil || f.NArg() == 0 {
			return rest, err
		}
		rest = append(rest, f.Arg(0))
		args = f.Args()[1:]
	}
}

// inFolder calls f with the folder of the runs, or with a temporary one that
// is removed afterwards.
func inFolder(keep string, f func(dir string) (result, error)) (r result, err error) {
	if keep != "" {
		dir, err := filepath.Abs(keep)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		return f(dir)
	}
	dir, err := os.MkdirTemp("", "openmanus-runs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

func verdict(ok bool) string {
	if ok {
		return "kept"
	}
	return "NOT kept"
}
