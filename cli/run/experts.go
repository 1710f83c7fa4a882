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

// expertActions finds a solution of a task of a built-in environment.
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
	return nil, fmt.Errorf("there is no expert for environment %s", w.Spec.Name)
}

// expertReply words an action as a reply of the format.
func expertReply(f agent.Format, action string) string {
	if tagged := "<action>" + action + "</action>"; f.Parse(tagged).OK {
		return tagged
	}
	return "Action: " + action
}

// playExpert plays a task with the expert's actions against a server and
// returns it with the conversation, or the conversations, in the very shape in
// which the model will play: that is what a warm start is to teach.
func playExpert(ctx context.Context, w *World, setup agent.Setup, index int) ([]data.Task, error) {
	task := data.Task{ID: fmt.Sprintf("%s_%d", w.Spec.Name, index), Env: w.Spec.Name, Index: index}
	actions, err := expertActions(w, index)
	if err != nil {
		return nil, err
	}
	var p played
	for try := 1; ; try++ {
		p, err = playActions(ctx, w, setup, &task, actions)
		if err == nil || !brokenOff(err) || try == expertTries {
			break
		}
		w.log.Debug("an expert's episode was broken off, playing it again", "task", task.ID, "try", try, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("expert of %s: %w", task.ID, err)
	}
	if !w.Spec.Success(p.reward) {
		return nil, fmt.Errorf("expert of %s ended with reward %g, which is no success: is the server the built-in one?", task.ID, p.reward)
	}
	conversations, err := p.Conversations(ctx, task, setup.Format, setup.Options.InstructionRole)
	if err != nil {
		return nil, fmt.Errorf("expert of %s: %w", task.ID, err)
	}
	return withConversations(task, conversations), nil
}

// withConversations are tasks that hold one conversation each.
func withConversations(task data.Task, conversations [][]data.Message) []data.Task {
	tasks := make([]data.Task, len(conversations))
	for i, messages := range conversations {
		tasks[i] = task
		tasks[i].Conversation = messages
	}
	return tasks
}

// expertTries is how often a solution is begun that servers break off. It has
// to go through in one piece.
const expertTries = 60

// brokenOff reports whether err is a failed exchange with a server, so that
// the same may go well on another instance.
func brokenOff(err error) bool {
	var e *env.Error
	return errors.As(err, &e) && e.Kind != env.KindCancelled
}

// played says how far given actions were played, and what was said.
type played struct {
	agent.Recording
	made   int // actions that the episode went on after
	reward float64
}

// playActions plays given actions against a server and leaves the
// conversation in task, up to where an error broke it off.
func playActions(ctx context.Context, w *World, setup agent.Setup, task *data.Task, actions []string) (p played, err error) {
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
	p.Recording = agent.Recording{Instruction: agent.Instruction(*task, w.Spec, setup.Format, setup.Options.Instruction), First: obs.Text}
	defer func() {
		var fault error
		if task.Conversation, fault = p.Conversation(setup.Options.InstructionRole); err == nil {
			err = fault
		}
	}()
	for i, action := range actions {
		reply := expertReply(setup.Format, action)
		step, stepErr := lease.Client().Step(ctx, setup.Format.Parse(reply).Text)
		if err = stepErr; err != nil {
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
