package run

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
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

// trainError adds the exit code and a hint to an error of training.
func trainError(run *runFolder, err error) error {
	var diverged *learner.DivergedError
	var notFinite *learner.NotFiniteError
	var gap *algo.GapError
	var failed *rollout.FailedError
	var prompt *agent.PromptError
	var overlong *algo.OverlongError
	var down *pool.DownError
	var native *torch.Error
	switch {
	case algo.IsDiskError(err): // first, since the error before it was then not saved either
		return errext.With(errext.Disk, "make room or set trainer.output_dir, then run the same command to resume from the last checkpoint", err)
	case errors.Is(err, algo.ErrInterrupted):
		return errext.ErrInterrupted
	case errors.As(err, &down), errors.As(err, &failed) && failed.Outcome == data.EnvError:
		return errext.With(errext.Env, "fix or restart the servers, then run the same command to resume from the last checkpoint", err)
	case errors.As(err, &failed), errors.As(err, &native):
		return errext.With(errext.Native, "run the same command to resume from the last checkpoint", err)
	case errors.As(err, &diverged):
		return errext.With(errext.Diverged, "the last checkpoint in "+run.Checkpoints()+" was saved before that; the batches are in "+run.BadSteps(), err)
	case errors.As(err, &notFinite):
		return errext.With(errext.Diverged, "lower the learning rate, or compute in float32 (model.compute_dtype)", err)
	case errors.As(err, &gap):
		return errext.With(errext.Check, "", err)
	case errors.As(err, &prompt):
		key := map[string]string{agent.MaxPromptKey: "data.max_prompt_tokens", agent.MaxContextKey: "rollout.max_context_tokens"}[prompt.Key]
		return errext.With(errext.Input, "raise "+key+", shorten long prompts (data.truncation), or skip long tasks (data.filter_overlong, or skip_tasks for this task)", err)
	case errors.As(err, &overlong):
		return errext.With(errext.Input, "raise data.max_prompt_tokens, or shorten the prompts with data.truncation", err)
	}
	return err
}

// CodeOf returns the exit code of an error: the code that errext.With attached,
// or else the code of the error's type. ctx is the context of the failed call.

func CodeOf(ctx context.Context, err error) errext.ExitCode {
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
