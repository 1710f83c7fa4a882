package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
)

// expertActions returns a solution of a task of a built-in environment.
func expertActions(w *World, index int) ([]string, error) {
	switch w.Spec.Name {
	case "maze":
		return builtin.MazeExpert(index), nil
	case "textcraft":
		return builtin.TextcraftExpert(index), nil
	case "wordle":
		words := w.words
		if words == nil {
			words = builtin.OwnVocabulary()
		}
		return builtin.WordleExpert(words, int64(index)), nil
	}
	return nil, fmt.Errorf("environment %s has no expert", w.Spec.Name)
}

// expertReply returns a reply that the format parses as action.
func expertReply(f agent.Format, action string) string {
	if tagged := "<action>" + action + "</action>"; f.Parse(tagged).OK {
		return tagged
	}
	return "Action: " + action
}

// playExpert plays the expert's solution of a task against a server, in the model's
// format. It returns a copy of the task for each conversation of the episode.
func playExpert(ctx context.Context, w *World, setup agent.Setup, index int) ([]data.Task, error) {
	task := data.Task{ID: fmt.Sprintf("%s_%d", w.Spec.Name, index), Env: w.Spec.Name, Index: index}
	actions, err := expertActions(w, index)
	if err != nil {
		return nil, err
	}
	p, err := playActions(ctx, w, setup, task, actions, expertTries)
	if err != nil {
		return nil, fmt.Errorf("expert of %s: %w", task.ID, err)
	}
	if !w.Spec.Success(p.reward) {
		return nil, fmt.Errorf("expert of %s ended with reward %g and without success: play expert_tasks on the built-in server", task.ID, p.reward)
	}
	conversations, err := p.Conversations(ctx, task, setup.Format, setup.Options.InstructionRole)
	if err != nil {
		return nil, fmt.Errorf("expert of %s: %w", task.ID, err)
	}
	return withConversations(task, conversations), nil
}

// withConversations returns a copy of task for each conversation.
func withConversations(task data.Task, conversations [][]data.Message) []data.Task {
	tasks := make([]data.Task, len(conversations))
	for i, messages := range conversations {
		tasks[i] = task
		tasks[i].Conversation = messages
	}
	return tasks
}

// expertTries bounds the attempts to play a solution on failing servers. A solution
// needs one attempt without a failure.
const expertTries = 60

// isServerFailure reports whether err is a failed request to a server, which may
// succeed on another instance.
func isServerFailure(err error) bool {
	e, ok := errors.AsType[*env.Error](err)
	return ok && e.Kind != env.KindCancelled
}

// played is the outcome of playActions.
type played struct {
	agent.Recording
	made   int // number of actions that did not end the episode
	reward float64
}

// playActions plays actions against a server. If the server fails, it plays them
// again from the start. After the given number of failures playActions returns the last error and the
// longest attempt.
func playActions(ctx context.Context, w *World, setup agent.Setup, task data.Task, actions []string, tries int) (longest played, err error) {
	for try := range tries {
		var p played
		if p, err = playOnce(ctx, w, setup, task, actions); !isServerFailure(err) {
			return p, err
		}
		w.log.Debug("playing actions again after a server failure", "task", task.ID, "try", try+1, "error", err)
		if p.made > longest.made {
			longest = p
		}
	}
	return longest, err
}

// playOnce plays actions on one instance. With an error it also returns the
// actions before the error.
func playOnce(ctx context.Context, w *World, setup agent.Setup, task data.Task, actions []string) (p played, err error) {
	lease, err := w.Pool.Acquire(ctx)
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			lease.Fail(err)
			return
		}
		lease.Release()
	}()
	obs, err := lease.Client().Reset(ctx, task.Index)
	if err != nil {
		return p, err
	}
	p.Recording = agent.Recording{Instruction: agent.Instruction(task, w.Spec, setup.Format, setup.Options.Instruction), First: obs.Text}
	for i, action := range actions {
		reply := expertReply(setup.Format, action)
		step, err := lease.Client().Step(ctx, setup.Format.Parse(reply).Text)
		if err != nil {
			return p, fmt.Errorf("action %d: %w", i+1, err)
		}
		p.Turns = append(p.Turns, data.Message{Role: "assistant", Content: reply})
		if p.reward = step.Reward; step.Done {
			break
		}
		p.Turns = append(p.Turns, data.Message{Role: "user", Content: step.Observation})
		p.made++
	}
	return p, nil
}
