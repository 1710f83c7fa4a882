package env

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/openmanus/openmanus/data"
)

// Prompt tasks: the model replies once to the messages of a data row, and a score
// function judges the reply (reinforcement learning with verifiable rewards). There is
// no server: instances live in this process.

// KindPrompt is the kind of the environments that Prompts(…) describes.
const KindPrompt = "prompt"

// Judge returns the score of a reply to a task. Any number of goroutines may call it.
type Judge func(ctx context.Context, task data.Task, reply string) (float64, error)

// JudgeError is the error of a Judge. It ends a rollout, since the replies to other
// tasks would fail in the same way.
type JudgeError struct {
	Task string
	Err  error
}

// Error names the task.
func (e *JudgeError) Error() string {
	return fmt.Sprintf("score the reply to task %s: %v", e.Task, e.Err)
}

// Unwrap returns the error of the score function.
func (e *JudgeError) Unwrap() error { return e.Err }

// Hopeless reports that another attempt would fail too.
func (e *JudgeError) Hopeless() bool { return true }

// Prompts returns the Spec of prompt tasks. The score of judge is the reward, and a
// reward above success is a success. Without a judge the tasks cannot be played.
func Prompts(name string, success float64, judge Judge) Spec {
	return Spec{
		Name:          name,
		Doc:           "tasks of one prompt and one reply",
		Prompts:       true,
		Instruction:   func(string) string { return "" },
		SuccessReward: success,
		Deterministic: true,
		MaxTurns:      1,
		New: func(context.Context, Options) (Client, error) {
			if judge == nil {
				return nil, fmt.Errorf("environment %s has no score function", name)
			}
			return &prompting{judge: judge}, nil
		},
	}
}

// TaskClient is a Client whose episodes start from a task's data, not from an index.
type TaskClient interface {
	ResetTask(ctx context.Context, task data.Task) (Obs, error)
}

// ResetTask starts a task on an instance.
func ResetTask(ctx context.Context, c Client, task data.Task) (Obs, error) {
	if from, ok := c.(TaskClient); ok {
		return from.ResetTask(ctx, task)
	}
	return c.Reset(ctx, task.Index)
}

// prompting is an instance of prompt tasks.
type prompting struct {
	judge Judge
	busy  atomic.Bool
	task  data.Task // guarded by busy
	open  bool      // the task has no reply yet; guarded by busy
}

func (p *prompting) enter() error {
	if !p.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	return nil
}

// Reset returns an error: an index does not contain the prompt.
func (p *prompting) Reset(_ context.Context, index int) (Obs, error) {
	return Obs{}, fmt.Errorf("task %d: a prompt task starts from its data row", index)
}

// ResetTask returns the content of the prompt's last message. The messages before it
// are part of the task.
func (p *prompting) ResetTask(_ context.Context, task data.Task) (Obs, error) {
	if err := p.enter(); err != nil {
		return Obs{}, err
	}
	defer p.busy.Store(false)
	if len(task.Prompt) == 0 {
		return Obs{}, fmt.Errorf("task %s has no prompt", task.ID)
	}
	p.task, p.open = task, true
	return Obs{Text: task.Prompt[len(task.Prompt)-1].Content}, nil
}

// Step scores the reply, which ends the task.
func (p *prompting) Step(ctx context.Context, reply string) (StepResult, error) {
	if err := p.enter(); err != nil {
		return StepResult{}, err
	}
	defer p.busy.Store(false)
	if !p.open {
		return StepResult{}, errors.New("a prompt task has one reply")
	}
	score, err := p.judge(ctx, p.task, reply)
	if err != nil {
		return StepResult{}, &JudgeError{Task: p.task.ID, Err: err}
	}
	p.open = false
	return StepResult{Reward: score, Done: true, Action: reply, Sent: true}, nil
}

// Close does nothing.
func (p *prompting) Close(context.Context) error { return nil }
