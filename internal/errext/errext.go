// Package errext defines errors with the exit code of the process and a hint for
// the user. Packages that open models, servers and data return them. Only package
// cli prints them and sets the exit status.
package errext

import (
	"errors"
	"strings"
)

// ExitCode is the exit status of the process. Scripts may rely on the numbers.
type ExitCode int

// The exit codes. Codes describes each of them.
const (
	OK          ExitCode = 0
	Internal    ExitCode = 1
	Usage       ExitCode = 2
	Input       ExitCode = 3
	Model       ExitCode = 4
	Env         ExitCode = 5
	Native      ExitCode = 6
	Disk        ExitCode = 7
	Check       ExitCode = 8
	Diverged    ExitCode = 9
	Interrupted ExitCode = 130
)

// Meaning is an exit code with its meaning.
type Meaning struct {
	Code    ExitCode
	Meaning string
}

// Codes lists every exit code with its meaning, in ascending order.
// docs/exit-codes.md is generated from it.
var Codes = []Meaning{
	{OK, "success"},
	{Internal, "a bug in openmanus; please report it"},
	{Usage, "wrong command line: an unknown command or flag, or a missing or invalid value"},
	{Input, "bad input: a configuration, a data file or standard input; every error is printed with its position"},
	{Model, "a model or tokenizer cannot be loaded"},
	{Env, "an environment server, the endpoint of --base-url, or an external score function is unreachable or failed permanently"},
	{Native, "no such device, out of device memory, or another failure of the native libraries; also if another process of a run of several has ended or hangs"},
	{Disk, "a file cannot be written, or a checkpoint cannot be read"},
	{Check, "a requested check failed, such as `env check`, or the log-prob gap with rollout.fail_on_logprob_gap"},
	{Diverged, "training diverged: three optimiser steps in a row were not finite; the last good checkpoint is kept"},
	{Interrupted, "interrupted by Ctrl-C, SIGTERM or SIGHUP; a training run saves a checkpoint first and can be resumed"},
}

// Error is an error with an exit code and a hint.
type Error struct {
	Code ExitCode
	Hint string // an action for the user; "" if Err is enough
	Err  error
}

// Error returns the message and the hint on one line.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Hint
}

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.Err }

// With returns err with an exit code and a hint, or nil if err is nil.
func With(code ExitCode, hint string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Hint: hint, Err: err}
}

// WithDefault returns err with the exit code, unless err already has one.
func WithDefault(code ExitCode, err error) error {
	if _, ok := CodeOf(err); ok {
		return err
	}
	return With(code, "", err)
}

// CodeOf returns the exit code of the outermost Error in err's chain, or Internal and
// false if there is none.
func CodeOf(err error) (ExitCode, bool) {
	var e *Error
	if !errors.As(err, &e) {
		return Internal, false
	}
	return e.Code, true
}

// ErrInterrupted is the error of a run that a signal or the caller interrupted. It
// is also the cause of the contexts that a signal cancels.
var ErrInterrupted = errors.New("interrupted")

// ShellQuote quotes word for a POSIX shell, for hints with a command line.
func ShellQuote(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
