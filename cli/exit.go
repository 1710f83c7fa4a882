package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
	"github.com/openmanus/openmanus/torch"
)

// exitDocs returns docs/exit-codes.md.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nGenerated from `internal/errext` (`go test ./cli -update`).\n\n| code | meaning |\n| --- | --- |\n")
	for _, c := range errext.Codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	return b.String()
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return errext.With(errext.Usage, "", fmt.Errorf(format, args...))
}

// codeOf returns the exit code of an error: the one that errext.With attached,
// or else the one that follows from the error's type.
func codeOf(ctx context.Context, err error) errext.ExitCode {
	code, coded := errext.CodeOf(err)
	var faults configs.Faults
	var envErr *env.Error
	var scoreErr *external.Error
	var down *pool.DownError
	var other *env.OtherEnvError
	var failed *rollout.FailedError
	var native *torch.Error
	var fault *openai.Error
	var chat *learner.ChatError
	switch {
	case err == nil:
		return errext.OK
	case errors.Is(err, errext.ErrInterrupted),
		errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errext.ErrInterrupted):
		return errext.Interrupted
	case coded:
		return code
	case errors.As(err, &faults), errors.Is(err, reward.ErrNoGroundTruth):
		return errext.Input
	case errors.As(err, &chat):
		return errext.Model
	case errors.As(err, &envErr), errors.As(err, &scoreErr), errors.As(err, &down), errors.As(err, &other), errors.As(err, &fault), errors.As(err, &failed) && failed.Outcome == data.EnvError:
		return errext.Env
	case failed != nil, errors.As(err, &native):
		return errext.Native
	}
	return errext.Internal
}

// report prints an error for people: every line of it behind the program's
// name, so that several faults stay readable and greppable.
func report(s *State, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(s.Stderr, "openmanus: %s\n", line)
	}
}
