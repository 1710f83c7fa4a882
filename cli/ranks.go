package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/dist"
)

func processesFlag() cli.Flag {
	return &cli.IntFlag{Name: "processes", Usage: "train with `N` processes on this machine, each with its own GPU (docs/distributed.md); torchrun, srun and Kubernetes start them without this flag"}
}

// tensorParallelFlag is the flag of commands that play with one model.
func tensorParallelFlag() cli.Flag {
	return &cli.IntFlag{Name: "processes", Usage: "hold the model in `N` processes on this machine, each with 1/N of its weights and of the KV cache (docs/distributed.md); torchrun, srun and Kubernetes start them without this flag"}
}

// onRanks runs f in the processes that --processes or a launcher requests: in this one, or in N that it starts. file and
// configErr are the configuration's file and its error.
func (s *State) onRanks(ctx context.Context, c *cli.Context, file string, cfg configs.Config, configErr error, f func() error) (err error) {
	processes := c.Int("processes")
	env, several, err := s.groupEnv(processes)
	if err != nil {
		return err
	}
	if several {
		r, joinErr := s.join(ctx, env, cfg, configErr)
		configErr = joinErr
		defer func() {
			err = r.Settle(s.interrupts.Hard, err)
			err = errors.Join(err, r.Close(err))
		}()
	}
	if configErr != nil {
		return configErr
	}
	if processes > 1 {
		return s.launch(processes, file, 0)
	}
	return f()
}

// groupEnv returns the place of this process among the processes of a run. several is false if it is alone.
func (s *State) groupEnv(processes int) (env dist.Env, several bool, err error) {
	env, found, err := dist.ReadEnv(s.Getenv)
	switch {
	case processes < 0:
		return env, false, usagef("--processes %d: give the number of processes", processes)
	case err != nil:
		return env, true, errext.With(errext.Input, "correct the variables of the launcher (docs/distributed.md), or unset RANK and WORLD_SIZE to start without one", err)
	case found && env.Size > 1 && processes > 0:
		return env, true, usagef("--processes %d: this is process %d of %d that torchrun, srun or another launcher has started: remove the flag", processes, env.Rank, env.Size)
	}
	return env, found && env.Size > 1, nil
}

// launchGrace is the time that the other processes have to end after one has failed. In training rank 0, which may be saving, has
// dist.timeout_s.
const launchGrace = 10 * time.Second

// launch starts this command n times as the processes of a run and waits for them. After the failure of another process, rank 0 has the
// time firstGrace to save; 0: launchGrace.
func (s *State) launch(n int, file string, firstGrace time.Duration) error {
	if file == "-" {
		return usagef("--processes %d: the processes cannot read the configuration from standard input: give a file", n)
	}
	signals := make(chan Signal, 8)
	defer s.interrupts.Forward(signals)()
	status, err := dist.Launch(context.Background(), n, dist.Command{
		Path: s.Program, Args: withoutFlag(s.Args, "processes"), Dir: s.Dir, Env: slices.DeleteFunc(s.Environ(), describesGroup),
		Stdout: s.Stdout, Stderr: s.terminal, Grace: launchGrace,
		FirstGrace: firstGrace,
		Failed: func(err error) {
			s.Log.Warn("a process has failed: the others end", "error", err)
		},
	}, signals)
	if status == 0 {
		return err
	}
	failed := processError{status, err}
	if code := errext.ExitCode(status); code == errext.Interrupted || slices.ContainsFunc(errext.Codes, func(c errext.Meaning) bool { return c.Code == code }) {
		failed.err = errPrinted
	}
	return failed
}

// errPrinted is the error of a process that has printed its error.
var errPrinted = errors.New("the process has printed its error")

// processError is the failure of a process that launch has started.
type processError struct {
	status int // exit status; 128 plus the number of the signal that ended the process
	err    error
}

func (e processError) Error() string { return e.err.Error() }
func (e processError) Unwrap() error { return e.err }

// describesGroup reports whether a variable of the environment describes a group of processes.
func describesGroup(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, name) ||
		strings.HasPrefix(name, "TORCHELASTIC_")
}

// withoutFlag removes a flag and its value from a command line.
func withoutFlag(args []string, name string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		flag := strings.TrimLeft(args[i], "-")
		switch {
		case len(flag) == len(args[i]) || i == 0:
		case flag == name:
			i++
			continue
		case strings.HasPrefix(flag, name+"="):
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// join connects this process to the others of a run, and sends them configErr, the error of the configuration, which may have
// occurred only here. Processes other than rank 0 show only warnings and errors from then on, with their rank.
func (s *State) join(ctx context.Context, env dist.Env, cfg configs.Config, configErr error) (*ranks.Ranks, error) {
	if s.rank = env.Rank; env.Rank > 0 {
		s.interrupts.Silence()
		if !s.levelFixed {
			s.Log = newLogger(s, "warn")
		}
		s.Log, s.Progress = s.Log.With("rank", env.Rank), run.Host{}.WithDefaults().Progress // which shows nothing
	}
	if configErr != nil {
		cfg = run.Schema.Defaults()
	}
	r, err := run.Join(ctx, &s.Host, env, cfg.Dist)
	if err != nil {
		return nil, err
	}
	s.Ranks = r
	return r, r.Each(s.interrupts.Hard, func() error { return configErr })
}

// quietly reports whether an error is not printed: a signal handler or another process has printed it.
func (s *State) quietly(err error, code errext.ExitCode) bool {
	interrupted := code == errext.Interrupted && (errors.Is(err, context.Canceled) || s.rank > 0)
	return interrupted || ranks.Printed(err) || errors.Is(err, errPrinted)
}

// named adds the rank of this process to an error.
func (s *State) named(err error) error {
	if s.rank == 0 {
		return err
	}
	return fmt.Errorf("rank %d: %w", s.rank, err)
}
