package cli

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
func expertActions(w *world, index int) ([]string, error) {
	switch w.spec.Name {
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
	return nil, fmt.Errorf("there is no expert for environment %s", w.spec.Name)
}

// expertReply words an action as a reply of the format.
func expertReply(format, action string) string {
	if format == env.FormatActionTags {
		return "<action>" + action + "</action>"
	}
	return "Action: " + action
}

// playExpert plays a task with the expert's actions against a server and
// returns it with the conversation, in the very shape in which the model will
// play: that is what a warm start is to teach.
func playExpert(ctx context.Context, w *world, setup agent.Setup, index int) (data.Task, error) {
	task := data.Task{ID: fmt.Sprintf("%s_%d", w.spec.Name, index), Env: w.spec.Name, Index: index}
	actions, err := expertActions(w, index)
	if err != nil {
		return task, err
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
		return task, fmt.Errorf("expert of %s: %w", task.ID, err)
	}
	if !w.spec.Success(p.reward) {
		err = fmt.Errorf("expert of %s ended with reward %g, which is no success: is the server the built-in one?", task.ID, p.reward)
	}
	return task, err
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

// played says how far given actions were played.
type played struct {
	made   int // actions that the episode went on after
	reward float64
}

// playActions plays given actions against a server and leaves the
// conversation in task, up to where an error broke it off.
func playActions(ctx context.Context, w *world, setup agent.Setup, task *data.Task, actions []string) (p played, err error) {
	lease, err := w.pool.Acquire(ctx)
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			lease.Fail(err)
			return
		}
		lease.Release(true)
	}()
	obs, err := lease.Client().Reset(ctx, task.Index)
	if err != nil {
		return p, err
	}
	o := setup.Options
	task.Conversation, err = agent.Opening(agent.Instruction(*task, w.spec, setup.Format, o.Instruction), obs.Text, o.InstructionRole)
	if err != nil {
		return p, err
	}
	for i, action := range actions {
		reply := expertReply(setup.Format.Name(), action)
		step, stepErr := lease.Client().Step(ctx, setup.Format.Parse(reply).Text)
		if err = stepErr; err != nil {
			return p, fmt.Errorf("action %d: %w", i+1, err)
		}
		task.Conversation = append(task.Conversation, data.Message{Role: "assistant", Content: reply})
		if p.reward = step.Reward; step.Done {
			break
		}
		task.Conversation = append(task.Conversation, data.Message{Role: "user", Content: step.Observation})
		p.made++
	}
	return p, nil
}
