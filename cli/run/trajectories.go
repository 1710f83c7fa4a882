package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// loadExperts gathers what supervised training learns from: solutions played
// against the built-in servers, and the conversations of the files named under
// [sft] or else of the training rows.
func (t *training) loadExperts(ctx context.Context) error {
	if t.cfg.SFT.Epochs == 0 && t.cfg.Model.Fresh.Layers == 0 && !t.evolves() {
		return nil
	}
	read := filesRead{}
	var played []data.Task // the experts that are of tasks
	for i := range t.worlds {
		made, err := t.playExperts(ctx, i)
		if err != nil {
			return err
		}
		recorded, err := t.recorded(ctx, i, read)
		if err != nil {
			return fmt.Errorf("environment %s: %w", t.cfg.Env[i].Called(), err)
		}
		t.experts = append(append(t.experts, made...), recorded...)
		t.imitated = append(t.imitated, recorded...)
		played = append(append(played, made...), recorded...)
	}
	if len(t.worlds) == 0 {
		var err error
		if t.imitated, err = t.unplayed(ctx, "sft.files", t.cfg.SFT.Files, read); err != nil {
			return err
		}
		t.experts = t.imitated
	}
	if err := t.report(read, "sft.files"); err != nil {
		return err
	}
	if t.mode == supervised {
		if err := t.loadHeldOut(ctx); err != nil {
			return err
		}
	}
	warnOfLeak(t.host, "imitated", played, slices.Concat(t.val...))
	if t.cfg.SFT.Epochs > 0 && len(t.experts) == 0 {
		return errext.With(errext.Input, "give files with conversations under sft.files, expert_tasks of a built-in environment, or set sft.epochs = 0",
			errors.New("sft.epochs is not 0, but there is no recorded trajectory to learn from"))
	}
	return nil
}

// loadHeldOut gathers what supervised training validates on.
func (t *training) loadHeldOut(ctx context.Context) error {
	read := filesRead{}
	for i := range t.worlds {
		more, err := t.fromFiles(ctx, i, "sft.val_files", t.cfg.SFT.ValFiles, read)
		if err != nil {
			return err
		}
		t.heldOut = append(t.heldOut, more...)
	}
	if len(t.worlds) == 0 {
		var err error
		if t.heldOut, err = t.unplayed(ctx, "sft.val_files", t.cfg.SFT.ValFiles, read); err != nil {
			return err
		}
	}
	return t.report(read, "sft.val_files")
}

func (t *training) playExperts(ctx context.Context, i int) ([]data.Task, error) {
	var made []data.Task
	for _, entry := range t.cfg.Env[i].ExpertTasks {
		indices, err := configs.ParseIndices(entry)
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("expert_tasks: %w", err))
		}
		for _, index := range indices {
			if err := t.worlds[i].Spec.CheckIndex(index); err != nil {
				return nil, errext.With(errext.Input, "", fmt.Errorf("expert_tasks: %w", err))
			}
			tasks, err := playExpert(ctx, t.worlds[i], t.setups[i], index)
			if err != nil {
				return nil, errext.With(errext.Env, "", err)
			}
			made = append(made, tasks...)
		}
	}
	return made, nil
}

// recorded are the recorded conversations of one environment: those of
// sft.files, or else of its training rows.
func (t *training) recorded(ctx context.Context, i int, read filesRead) ([]data.Task, error) {
	if len(t.cfg.SFT.Files) > 0 {
		return t.fromFiles(ctx, i, "sft.files", t.cfg.SFT.Files, read)
	}
	var f fileRead
	tasks, err := t.asPlayed(ctx, i, t.train[i], &f)
	if len(tasks) > 0 && f.silent > 0 { // else they are tasks to play, and nothing else
		t.host.Log.Warn("tasks without a recorded conversation are not imitated", "env", t.worlds[i].Spec.Name, "tasks", f.silent)
	}
	return tasks, err
}

// fileRead is what became of the rows of a file.
type fileRead struct {
	strangers       int   // environments that it has no row for
	rows            int   // of the others
	silent, refused int   // left out: without a conversation, and of a task that the environment does not have
	why             error // of the first that was refused
}

// filesRead are those of several files, by name.
type filesRead map[string]*fileRead

// report says what was left out of files, and refuses one of which nothing is
// left: it is not the file that was meant.
func (t *training) report(read filesRead, key string) error {
	for _, name := range slices.Sorted(maps.Keys(read)) {
		f := read[name]
		left := f.silent + f.refused
		if left == 0 {
			continue
		}
		if left == f.rows {
			err := fmt.Errorf("%s: %s: none of its %d rows can be learned from: %d hold no conversation, %d are of tasks that the environment does not have",
				key, name, f.rows, f.silent, f.refused)
			if f.why != nil {
				err = fmt.Errorf("%w: %w", err, f.why)
			}
			return errext.With(errext.Input, "give files with conversations; `openmanus data head` shows what is in one", err)
		}
		t.host.Log.Warn("rows of a file are left out", "key", key, "file", name, "rows", f.rows, "without_conversation", f.silent, "of_no_task", f.refused)
	}
	return nil
}

// fromFiles reads trajectories of one environment. A file may be another
// environment's, as long as it is somebody's. Prompts and responses are no
// environment's: they come with the first.
func (t *training) fromFiles(ctx context.Context, i int, key string, files []string, read filesRead) ([]data.Task, error) {
	var tasks []data.Task
	w := t.worlds[i]
	for _, file := range files {
		if t.cfg.SFT.PromptKey != "" {
			if i > 0 {
				continue
			}
			pairs, err := t.pairs(ctx, key, file, w.Spec.Name)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, pairs...)
			continue
		}
		if read[file] == nil {
			read[file] = &fileRead{}
		}
		more, err := table.LoadTasks(ctx, t.host.Path(file), table.LoadOptions{Env: w.Spec.Name})
		if errors.Is(err, table.ErrOtherEnv) {
			if read[file].strangers++; read[file].strangers < len(t.worlds) {
				continue
			}
		}
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
		}
		more, err = t.asPlayed(ctx, i, more, read[file])
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, more...)
	}
	return tasks, nil
}

// asPlayed brings the recorded conversations among tasks into the shape in
// which the model will play, and counts what it leaves out.
func (t *training) asPlayed(ctx context.Context, i int, tasks []data.Task, f *fileRead) ([]data.Task, error) {
	w := t.worlds[i]
	var out []data.Task
	for _, task := range tasks {
		f.rows++
		if len(task.Conversation) == 0 {
			f.silent++
			continue
		}
		if err := w.Spec.CheckIndex(task.Index); err != nil && task.Index != data.NoIndex {
			if f.refused++; f.why == nil {
				f.why = fmt.Errorf("task %s: %w", task.ID, err)
			}
			continue
		}
		conversations, err := agent.Recorded(ctx, task, w.Spec, t.setups[i].Format, t.setups[i].Options, t.cfg.SFT.SkipIdle)
		if err != nil {
			return nil, err
		}
		out = append(out, withConversations(task, conversations)...)
	}
	return out, nil
}

// render renders the experts for supervised training, where there is some to
// do. It comes before anything that takes long: a trajectory may be too long.
func (t *training) render() error {
	warms := t.mode == supervised || t.cfg.SFT.Epochs > 0 && (t.run.state == nil || !t.run.state.WarmStarted)
	if !warms && !(t.evolves() && len(t.experts) > 0) {
		return nil
	}
	rows, counts, err := t.renderFiles(t.experts)
	if err != nil {
		return err
	}
	t.host.Log.Info("trajectories for supervised training", "rows", counts.Rows, "dropped", counts.Dropped, "loss_tokens", counts.LossTokens)
	var val []data.Row
	if len(t.heldOut) > 0 {
		if val, counts, err = t.renderFiles(t.heldOut); err != nil {
			return fmt.Errorf("sft.val_files: %w", err)
		}
		t.host.Log.Info("trajectories to validate on", "rows", counts.Rows, "dropped", counts.Dropped, "loss_tokens", counts.LossTokens)
	}
	if warms {
		t.warm = sftOptions(t.cfg, rows, val)
	}
	if t.evolves() {
		t.lessons = rows
	}
	return nil
}

// renderFiles renders trajectories within the limits of [sft] and of the model.
func (t *training) renderFiles(tasks []data.Task) ([]data.Row, learner.SFTCounts, error) {
	rows, counts, err := learner.SFTRows(tasks, t.sampler.Renderer, t.cfg.SFT.MaxLength, t.cfg.SFT.Truncation)
	if err != nil {
		hint := ""
		if errors.Is(err, learner.ErrTooLong) {
			hint = "raise sft.max_length"
			if t.cfg.SFT.Truncation == learner.TruncateError {
				hint += `, or set sft.truncation = "drop" to leave out what is longer`
			}
		}
		return nil, counts, errext.With(errext.Input, hint, err)
	}
	most := t.bundle.Model.Config.MaxPositionEmbeddings
	for i := range rows {
		if n := len(rows[i].Tokens); n > most {
			return nil, counts, errext.With(errext.Input, fmt.Sprintf(`set sft.max_length to %d or less, and sft.truncation = "drop" to leave out what is longer`, most),
				fmt.Errorf("task %s has %d tokens, the model %d positions", rows[i].TaskID, n, most))
		}
	}
	return rows, counts, nil
}

// evolves reports whether the run's steps are those of AgentEvol.
func (t *training) evolves() bool { return t.mode == reinforced && t.cfg.Evolves() }

// Supervised training of files needs no environment: without an [[env]] table
// nothing is played, and conversations are learned as they are recorded.

// noEnv is where the rows of such a run are from that name no environment.
const noEnv = "none"

// playsAny reports whether the run plays in any environment.
func (t *training) playsAny() bool {
	if t.mode != supervised {
		return true
	}
	for _, w := range t.worlds {
		if w.Pool != nil {
			return true
		}
	}
	return false
}

// unplayed reads the trajectories of files that are of no environment here.
func (t *training) unplayed(ctx context.Context, key string, files []string, read filesRead) ([]data.Task, error) {
	var tasks []data.Task
	for _, file := range files {
		if t.cfg.SFT.PromptKey != "" {
			pairs, err := t.pairs(ctx, key, file, noEnv)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, pairs...)
			continue
		}
		rows, err := table.LoadTasks(ctx, t.host.Path(file), table.LoadOptions{Env: noEnv, AnyEnv: true})
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
		}
		f := &fileRead{rows: len(rows)}
		read[file] = f
		for _, task := range rows {
			if len(task.Conversation) == 0 {
				f.silent++
				continue
			}
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

// pairs reads a file of prompts and responses.
func (t *training) pairs(ctx context.Context, key, file, env string) ([]data.Task, error) {
	pairs, err := table.LoadPairs(ctx, t.host.Path(file), table.PairOptions{Env: env, Prompt: t.cfg.SFT.PromptKey, Response: t.cfg.SFT.ResponseKey})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
	}
	return pairs, nil
}
