package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
	"github.com/openmanus/openmanus/torch"
)

// ExitCode is what the process ends with. Scripts may rely on the numbers.
type ExitCode int

// The exit codes; docs/exit-codes.md is made from exitCodes below.
const (
	ExitOK          ExitCode = 0
	ExitInternal    ExitCode = 1
	ExitUsage       ExitCode = 2
	ExitInput       ExitCode = 3
	ExitModel       ExitCode = 4
	ExitEnv         ExitCode = 5
	ExitNative      ExitCode = 6
	ExitDisk        ExitCode = 7
	ExitCheck       ExitCode = 8
	ExitDiverged    ExitCode = 9
	ExitInterrupted ExitCode = 130
)

// exitCodes says what every code means, in order.
var exitCodes = []struct {
	Code    ExitCode
	Meaning string
}{
	{ExitOK, "done"},
	{ExitInternal, "a fault of the program itself; please report it"},
	{ExitUsage, "the command line is wrong: unknown command or flag, missing or bad value"},
	{ExitInput, "bad input: a configuration, a data file or standard input; every fault is printed with its place"},
	{ExitModel, "a model or tokenizer cannot be loaded"},
	{ExitEnv, "an environment server, the endpoint of --base-url, or a score function of yours cannot be reached, or failed for good"},
	{ExitNative, "no such device, out of device memory, or another failure of the native libraries"},
	{ExitDisk, "something cannot be written, or a checkpoint cannot be read back"},
	{ExitCheck, "a check that was asked for failed, such as `env check`, or the log-prob gap with rollout.fail_on_logprob_gap"},
	{ExitDiverged, "training diverged: three optimiser steps in a row were not finite; the last good checkpoint is kept"},
	{ExitInterrupted, "interrupted (Ctrl-C, SIGTERM, or SIGHUP when the terminal closes); a run saves first and can be resumed"},
}

// exitDocs returns docs/exit-codes.md.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nGenerated from `cli/exit.go` (`go test ./cli -update`).\n\n| code | meaning |\n| --- | --- |\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	return b.String()
}

// exitError is an error that knows its exit code and what to do about it.
type exitError struct {
	code ExitCode
	err  error
	hint string // "" where the error says it already
}

// Error returns what went wrong, where, and what to do, on one line.
func (e *exitError) Error() string {
	if e.hint == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.hint
}

// Unwrap returns the error without its hint.
func (e *exitError) Unwrap() error { return e.err }

// errWith gives err an exit code and a hint; a nil err stays nil.
func errWith(code ExitCode, hint string, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err, hint}
}

// usagef is an error about the command line.
func usagef(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...), ""}
}

// errInterrupted is the cause of the contexts that a signal ends.
var errInterrupted = errors.New("interrupted")

// codeOf finds the exit code of an error, by the innermost rule that fits:
// what a command said with errWith, else the type of the failure.
func codeOf(ctx context.Context, err error) ExitCode {
	var ee *exitError
	var faults configs.Faults
	var envErr *env.Error
	var scoreErr *external.Error
	var down *env.DownError
	var other *env.OtherEnvError
	var failed *rollout.FailedError
	var native *torch.Error
	var fault *openai.Error
	var chat *algo.ChatError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errInterrupted),
		errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errInterrupted):
		return ExitInterrupted
	case errors.As(err, &ee):
		return ee.code
	case errors.As(err, &faults), errors.Is(err, reward.ErrNoGroundTruth):
		return ExitInput
	case errors.As(err, &chat):
		return ExitModel
	case errors.As(err, &envErr), errors.As(err, &scoreErr), errors.As(err, &down), errors.As(err, &other), errors.As(err, &fault), errors.As(err, &failed) && failed.Outcome == data.EnvError:
		return ExitEnv
	case failed != nil, errors.As(err, &native):
		return ExitNative
	}
	return ExitInternal
}

// report prints an error for people: every line of it behind the program's
// name, so that several faults stay readable and greppable.
func report(s *State, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(s.Stderr, "openmanus: %s\n", line)
	}
}
