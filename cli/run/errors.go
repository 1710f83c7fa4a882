package run

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// is reports whether the chain of err has an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// trainError adds the exit code and a hint to an error of training.
func trainError(run *runFolder, err error) error {
	if lost, found := rankError(err); found {
		return lost
	}
	failed, lost := errors.AsType[*rollout.FailedError](err)
	prompt, tooLong := errors.AsType[*agent.PromptError](err)
	switch {
	case algo.IsDiskError(err): // before ErrInterrupted: the interrupted run was not saved
		return errext.With(errext.Disk, "make room or move the run folder and set trainer.output_dir to its new parent, then run the same command to resume from the last checkpoint", err)
	case errors.Is(err, algo.ErrInterrupted):
		return errext.With(errext.Interrupted, "run the same command to resume", errext.ErrInterrupted)
	case is[*pool.DownError](err), lost && failed.Outcome == data.EnvError:
		return errext.With(errext.Env, "fix or restart the servers, then run the same command to resume from the last checkpoint", err)
	case outOfMemory(err):
		return errext.With(errext.Native, "lower actor.max_tokens_per_micro_batch, actor.micro_batch_size, rollout.max_sequences or, on a GPU, "+
			"rollout.gpu_memory_utilization, or set model.gradient_checkpointing or actor.offload_optimizer (openmanus plan predicts "+
			"the memory); then run the same command to resume from the last checkpoint", err)
	case lost, is[*torch.Error](err):
		return errext.With(errext.Native, "run the same command to resume from the last checkpoint", err)
	case is[*learner.DivergedError](err):
		return errext.With(errext.Diverged, "the last checkpoint in "+run.Checkpoints()+" was saved before the divergence; the bad batches are in "+run.BadSteps(), err)
	case is[*learner.NotFiniteError](err):
		return errext.With(errext.Diverged, "lower the learning rate, or compute in float32 (model.compute_dtype)", err)
	case is[*algo.GapError](err):
		return errext.With(errext.Check, "", err)
	case tooLong:
		key := map[string]string{agent.MaxPromptKey: "data.max_prompt_tokens", agent.MaxContextKey: "rollout.max_context_tokens"}[prompt.Key]
		return errext.With(errext.Input, "raise "+key+", shorten long prompts (data.truncation), or skip long tasks (data.filter_overlong, or skip_tasks for this task)", err)
	case is[*algo.OverlongError](err):
		return errext.With(errext.Input, "raise data.max_prompt_tokens, or shorten the prompts with data.truncation", err)
	}
	return err
}

func outOfMemory(err error) bool {
	e, ok := errors.AsType[*torch.Error](err)
	return ok && e.OutOfMemory()
}

// CodeOf returns the exit code of an error: the code that errext.With attached,
// or else the code of the error's type. ctx is the context of the failed call.
func CodeOf(ctx context.Context, err error) errext.ExitCode {
	code, coded := errext.CodeOf(err)
	ofRank, other := errors.AsType[*ranks.Error](err)
	failed, lost := errors.AsType[*rollout.FailedError](err)
	switch {
	case err == nil:
		return errext.OK
	case errors.Is(err, errext.ErrInterrupted),
		errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errext.ErrInterrupted):
		return errext.Interrupted
	case coded:
		return code
	case other:
		return ofRank.Code
	case is[*dist.Error](err):
		return errext.Native
	case is[configs.Faults](err), errors.Is(err, reward.ErrNoGroundTruth):
		return errext.Input
	case is[*learner.ChatError](err):
		return errext.Model
	case is[*env.Error](err), is[*env.OtherEnvError](err), is[*external.Error](err), is[*openai.Error](err), is[*pool.DownError](err),
		lost && failed.Outcome == data.EnvError:
		return errext.Env
	case lost, is[*torch.Error](err):
		return errext.Native
	}
	return errext.Internal
}
