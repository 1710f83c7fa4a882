package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// loadExperts collects the data of supervised training: solutions of
// expert_tasks, played against the built-in servers, and the conversations of
// sft.files, or else of the training rows.
func (t *training) loadExperts(ctx context.Context) error {
	if t.dump != nil || t.cfg.SFT.Epochs == 0 && t.cfg.Model.Fresh.Layers == 0 && !t.evolves() {
		return nil
	}
	fromFiles, err := t.fromFiles(ctx, "sft.files", t.cfg.SFT.Files)
	if err != nil {
		return err
	}
	for i, e := range t.sources() {
		recorded := fromFiles[i]
		if len(t.cfg.SFT.Files) == 0 && e.World != nil {
			if recorded, err = t.fromTasks(ctx, e); err != nil {
				return fmt.Errorf("environment %s: %w", e.name(), err)
			}
		}
		made, err := playExperts(ctx, t.host, e)
		if err != nil {
			return err
		}
		t.experts = append(append(t.experts, made...), recorded...)
		t.recordedTasks = append(t.recordedTasks, recorded...)
	}
	if t.mode == supervised {
		heldOut, err := t.fromFiles(ctx, "sft.val_files", t.cfg.SFT.ValFiles)
		if err != nil {
			return err
		}
		t.heldOut = slices.Concat(heldOut...)
	}
	_, val := t.tasks()
	warnLeak(t.host, "imitated", t.experts, val)
	if t.cfg.SFT.Epochs > 0 && len(t.experts) == 0 {
		return errext.With(errext.Input, "give files with conversations under sft.files, expert_tasks of a built-in environment, or set sft.epochs = 0",
			errors.New("sft.epochs is not 0, but no recorded trajectory was found"))
	}
	return nil
}

// noEnv is the environment's name for rows that name no environment, in a configuration
// without an [[env]] table. Training uses the conversations as recorded.
const noEnv = "none"

// sources returns the environments whose trajectories are read. Without an [[env]]
// table it returns one environment without a World, whose name is noEnv.
func (t *training) sources() []*trainingEnv {
	if len(t.envs) == 0 {
		return []*trainingEnv{{}}
	}
	return t.envs
}

// name returns the name of the environment.
func (e *trainingEnv) name() string {
	if e.World == nil {
		return noEnv
	}
	return e.Spec.Name
}

// playExperts plays the expert_tasks of an environment.
func playExperts(ctx context.Context, h *Host, e *trainingEnv) ([]data.Task, error) {
	indices, err := parseIndices("expert_tasks", e.cfg.ExpertTasks)
	if err != nil {
		return nil, err
	}
	if len(indices) == 0 {
		return nil, nil
	}
	bar := h.Progress("playing expert tasks of "+e.name(), len(indices))
	defer bar.Done()
	var made []data.Task
	for i, index := range indices {
		bar.Set(i, "")
		if err := e.Spec.CheckIndex(index); err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("expert_tasks: %w", err))
		}
		tasks, err := playExpert(ctx, e.World, e.setup, index)
		if err != nil {
			return nil, errext.With(errext.Env, "", err)
		}
		made = append(made, tasks...)
	}
	return made, nil
}

// fromTasks returns the conversations in the training rows of an environment.
func (t *training) fromTasks(ctx context.Context, e *trainingEnv) ([]data.Task, error) {
	var n rowCount
	tasks, err := t.asPlayed(ctx, e, e.train, &n)
	if len(tasks) > 0 && n.noConversation > 0 { // if no row has a conversation, all rows are tasks to play
		t.host.Log.Warn("tasks without a recorded conversation are not imitated", "env", e.name(), "tasks", n.noConversation)
	}
	return tasks, err
}

// rowCount counts the rows of a file.
type rowCount struct {
	rows           int   // rows of the environments
	noConversation int   // skipped: no recorded conversation
	unknownTask    int   // skipped: no such task in the environment
	firstErr       error // first error of an unknown task
}

// reportSkipped logs the skipped rows of a file. It returns an error if all rows
// were skipped: the file is probably the wrong one.
func (t *training) reportSkipped(n rowCount, key, file string) error {
	switch skipped := n.noConversation + n.unknownTask; {
	case skipped == 0:
	case skipped == n.rows:
		err := fmt.Errorf("%s: %s: none of the %d rows can be used for training: %d hold no conversation, %d name unknown tasks",
			key, file, n.rows, n.noConversation, n.unknownTask)
		if n.firstErr != nil {
			err = fmt.Errorf("%w: %w", err, n.firstErr)
		}
		return errext.With(errext.Input, "give files with conversations; `openmanus data head` prints the rows of a file", err)
	default:
		t.host.Log.Warn("rows of a file are skipped", "key", key, "file", file, "rows", n.rows, "without_conversation", n.noConversation, "unknown_task", n.unknownTask)
	}
	return nil
}

// fromFiles reads trajectories from files, for each environment of sources. A file
// must have rows of at least one environment. Pairs of prompts and responses have no
// environment and are added to the first one.
func (t *training) fromFiles(ctx context.Context, key string, files []string) ([][]data.Task, error) {
	envs := t.sources()
	out := make([][]data.Task, len(envs))
	for _, file := range files {
		path := t.host.Path(file)
		if t.cfg.SFT.PromptKey != "" {
			pairs, err := table.LoadPairs(ctx, path, table.PairOptions{Env: envs[0].name(), Prompt: t.cfg.SFT.PromptKey, Response: t.cfg.SFT.ResponseKey})
			if err != nil {
				return nil, errext.With(errext.Input, fileHint(err), fmt.Errorf("%s: %w", key, err))
			}
			out[0] = append(out[0], pairs...)
			continue
		}
		var n rowCount
		others := 0
		for i, e := range envs {
			rows, err := table.LoadTasks(ctx, path, table.LoadOptions{Env: e.name(), AnyEnv: e.name() == noEnv})
			if errors.Is(err, table.ErrOtherEnv) {
				if others++; others < len(envs) {
					continue
				}
			}
			if err != nil {
				return nil, errext.With(errext.Input, fileHint(err), fmt.Errorf("%s: %w", key, err))
			}
			if rows, err = t.asPlayed(ctx, e, rows, &n); err != nil {
				return nil, err
			}
			out[i] = append(out[i], rows...)
		}
		if err := t.reportSkipped(n, key, file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// asPlayed converts the recorded conversations of tasks to the format in which the
// model plays, and counts the rows in n.
func (t *training) asPlayed(ctx context.Context, e *trainingEnv, tasks []data.Task, n *rowCount) ([]data.Task, error) {
	var out []data.Task
	for _, task := range tasks {
		n.rows++
		if len(task.Conversation) == 0 {
			n.noConversation++
			continue
		}
		if e.World == nil {
			out = append(out, task)
			continue
		}
		if err := e.Spec.CheckIndex(task.Index); err != nil && task.Index != data.NoIndex {
			if n.unknownTask++; n.firstErr == nil {
				n.firstErr = fmt.Errorf("task %s: %w", task.ID, err)
			}
			continue
		}
		conversations, err := agent.Recorded(ctx, task, e.Spec, e.setup.Format, e.setup.Options, t.cfg.SFT.SkipIdle)
		if err != nil {
			return nil, err
		}
		out = append(out, withConversations(task, conversations)...)
	}
	return out, nil
}

// renderExperts converts the experts to rows if the run trains on them. It runs
// before any slow work, since it reports trajectories that are too long.
func (t *training) renderExperts() error {
	warms := t.mode == supervised || t.cfg.SFT.Epochs > 0 && (t.run.state == nil || !t.run.state.WarmStarted)
	if !warms && !(t.evolves() && len(t.experts) > 0) {
		return nil
	}
	rows, err := t.renderRows("training", t.experts)
	if err != nil {
		return err
	}
	var val []data.Row
	if len(t.heldOut) > 0 {
		if val, err = t.renderRows("validation", t.heldOut); err != nil {
			return fmt.Errorf("sft.val_files: %w", err)
		}
	}
	if warms {
		t.warm = sftOptions(t.cfg, rows, val)
	}
	if t.evolves() {
		t.sftRows = rows
	}
	return nil
}

// renderRows converts trajectories to rows within the limits of [sft] and of the
// model.
func (t *training) renderRows(use string, tasks []data.Task) ([]data.Row, error) {
	rows, counts, err := learner.SFTRows(tasks, t.sampler.Renderer, t.cfg.SFT.MaxLength, t.cfg.SFT.Truncation)
	if err != nil {
		hint := ""
		if errors.Is(err, learner.ErrTooLong) {
			hint = "raise sft.max_length"
			if t.cfg.SFT.Truncation == learner.TruncateError {
				hint += `, or set sft.truncation = "drop" to skip longer trajectories`
			}
		}
		return nil, errext.With(errext.Input, hint, err)
	}
	most := t.bundle.Model.Config.MaxPositionEmbeddings
	for i := range rows {
		if n := len(rows[i].Tokens); n > most {
			return nil, errext.With(errext.Input, fmt.Sprintf(`set sft.max_length to %d or less, and sft.truncation = "drop" to skip longer trajectories`, most),
				fmt.Errorf("task %s has %d tokens, the model %d positions", rows[i].TaskID, n, most))
		}
	}
	t.host.Log.Info("rows for supervised "+use, "rows", counts.Rows, "dropped", counts.Dropped, "loss_tokens", counts.LossTokens)
	return rows, nil
}

// evolves reports whether the run trains by AgentEvol.
func (t *training) evolves() bool { return t.mode == reinforced && t.cfg.Evolves() }

// playsAny reports whether the run plays in any environment.
func (t *training) playsAny() bool {
	if t.mode != supervised {
		return true
	}
	return slices.ContainsFunc(t.envs, func(e *trainingEnv) bool { return e.World != nil && e.Pool != nil })
}
