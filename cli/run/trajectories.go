package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	if t.cfg.SFT.Epochs == 0 && t.cfg.Model.Fresh.Layers == 0 && !t.evolves() {
		return nil
	}
	read := rowCounts{}
	for _, e := range t.sources() {
		made, err := playExperts(ctx, e)
		if err != nil {
			return err
		}
		recorded, err := t.recorded(ctx, e, read)
		if err != nil {
			return fmt.Errorf("environment %s: %w", e.name(), err)
		}
		t.experts = append(append(t.experts, made...), recorded...)
		t.recordedTasks = append(t.recordedTasks, recorded...)
	}
	if err := t.reportSkipped(read, "sft.files"); err != nil {
		return err
	}
	if t.mode == supervised {
		if err := t.loadHeldOut(ctx); err != nil {
			return err
		}
	}
	_, val := t.tasks()
	warnLeak(t.host, "imitated", t.experts, val)
	if t.cfg.SFT.Epochs > 0 && len(t.experts) == 0 {
		return errext.With(errext.Input, "give files with conversations under sft.files, expert_tasks of a built-in environment, or set sft.epochs = 0",
			errors.New("sft.epochs is not 0, but no recorded trajectory was found"))
	}
	return nil
}

// loadHeldOut reads the trajectories of sft.val_files.
func (t *training) loadHeldOut(ctx context.Context) error {
	read := rowCounts{}
	for _, e := range t.sources() {
		more, err := t.fromFiles(ctx, e, "sft.val_files", t.cfg.SFT.ValFiles, read)
		if err != nil {
			return err
		}
		t.heldOut = append(t.heldOut, more...)
	}
	return t.reportSkipped(read, "sft.val_files")
}

// noEnv is the environment of rows that name none, in a configuration without
// an [[env]] table. Their conversations are learned as recorded.
const noEnv = "none"

// sources returns the environments whose trajectories are read. Without an [[env]]
// table it is a single one without a World, noEnv.
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
func playExperts(ctx context.Context, e *trainingEnv) ([]data.Task, error) {
	indices, err := parseIndices("expert_tasks", e.cfg.ExpertTasks)
	if err != nil {
		return nil, err
	}
	var made []data.Task
	for _, index := range indices {
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

// recorded returns the recorded conversations of one environment: those of
// sft.files, or else of its training rows.
func (t *training) recorded(ctx context.Context, e *trainingEnv, read rowCounts) ([]data.Task, error) {
	if len(t.cfg.SFT.Files) > 0 || e.World == nil {
		return t.fromFiles(ctx, e, "sft.files", t.cfg.SFT.Files, read)
	}
	var f rowCount
	tasks, err := t.asPlayed(ctx, e, e.train, &f)
	if len(tasks) > 0 && f.noConversation > 0 { // without any conversation the rows are tasks to play
		t.host.Log.Warn("tasks without a recorded conversation are not imitated", "env", e.name(), "tasks", f.noConversation)
	}
	return tasks, err
}

// rowCount counts the rows of a file.
type rowCount struct {
	otherEnvs      int   // environments without a row in the file
	rows           int   // rows of the other environments
	noConversation int   // skipped: no recorded conversation
	unknownTask    int   // skipped: no such task in the environment
	firstErr       error // of unknownTask
}

// rowCounts holds a rowCount for each file name.
type rowCounts map[string]*rowCount

// reportSkipped logs skipped rows. It returns an error for a file whose rows
// were all skipped, which is probably the wrong file.
func (t *training) reportSkipped(read rowCounts, key string) error {
	for _, name := range slices.Sorted(maps.Keys(read)) {
		f := read[name]
		skipped := f.noConversation + f.unknownTask
		if skipped == 0 {
			continue
		}
		if skipped == f.rows {
			err := fmt.Errorf("%s: %s: none of the %d rows can be learned from: %d hold no conversation, %d name unknown tasks",
				key, name, f.rows, f.noConversation, f.unknownTask)
			if f.firstErr != nil {
				err = fmt.Errorf("%w: %w", err, f.firstErr)
			}
			return errext.With(errext.Input, "give files with conversations; `openmanus data head` prints the rows of a file", err)
		}
		t.host.Log.Warn("rows of a file are skipped", "key", key, "file", name, "rows", f.rows, "without_conversation", f.noConversation, "unknown_task", f.unknownTask)
	}
	return nil
}

// fromFiles reads the trajectories of an environment from files. A file must
// have rows of at least one environment. Files of prompts and responses, which
// belong to no environment, are read for the first.
func (t *training) fromFiles(ctx context.Context, e *trainingEnv, key string, files []string, read rowCounts) ([]data.Task, error) {
	var tasks []data.Task
	name := e.name()
	for _, file := range files {
		if t.cfg.SFT.PromptKey != "" {
			if len(t.envs) > 0 && e != t.envs[0] {
				continue
			}
			pairs, err := table.LoadPairs(ctx, t.host.Path(file), table.PairOptions{Env: name, Prompt: t.cfg.SFT.PromptKey, Response: t.cfg.SFT.ResponseKey})
			if err != nil {
				return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
			}
			tasks = append(tasks, pairs...)
			continue
		}
		if read[file] == nil {
			read[file] = &rowCount{}
		}
		rows, err := table.LoadTasks(ctx, t.host.Path(file), table.LoadOptions{Env: name, AnyEnv: name == noEnv})
		if errors.Is(err, table.ErrOtherEnv) {
			if read[file].otherEnvs++; read[file].otherEnvs < len(t.envs) {
				continue
			}
		}
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
		}
		if rows, err = t.asPlayed(ctx, e, rows, read[file]); err != nil {
			return nil, err
		}
		tasks = append(tasks, rows...)
	}
	return tasks, nil
}

// asPlayed returns the recorded conversations among tasks in the format in
// which the model plays, and counts skipped rows in f.
func (t *training) asPlayed(ctx context.Context, e *trainingEnv, tasks []data.Task, f *rowCount) ([]data.Task, error) {
	var out []data.Task
	for _, task := range tasks {
		f.rows++
		if len(task.Conversation) == 0 {
			f.noConversation++
			continue
		}
		if e.World == nil {
			out = append(out, task)
			continue
		}
		if err := e.Spec.CheckIndex(task.Index); err != nil && task.Index != data.NoIndex {
			if f.unknownTask++; f.firstErr == nil {
				f.firstErr = fmt.Errorf("task %s: %w", task.ID, err)
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
	rows, counts, err := t.renderFiles(t.experts)
	if err != nil {
		return err
	}
	t.host.Log.Info("rows for supervised training", "rows", counts.Rows, "dropped", counts.Dropped, "loss_tokens", counts.LossTokens)
	var val []data.Row
	if len(t.heldOut) > 0 {
		if val, counts, err = t.renderFiles(t.heldOut); err != nil {
			return fmt.Errorf("sft.val_files: %w", err)
		}
		t.host.Log.Info("rows for supervised validation", "rows", counts.Rows, "dropped", counts.Dropped, "loss_tokens", counts.LossTokens)
	}
	if warms {
		t.warm = sftOptions(t.cfg, rows, val)
	}
	if t.evolves() {
		t.sftRows = rows
	}
	return nil
}

// renderFiles converts trajectories to rows within the limits of [sft] and of
// the model.
func (t *training) renderFiles(tasks []data.Task) ([]data.Row, learner.SFTCounts, error) {
	rows, counts, err := learner.SFTRows(tasks, t.sampler.Renderer, t.cfg.SFT.MaxLength, t.cfg.SFT.Truncation)
	if err != nil {
		hint := ""
		if errors.Is(err, learner.ErrTooLong) {
			hint = "raise sft.max_length"
			if t.cfg.SFT.Truncation == learner.TruncateError {
				hint += `, or set sft.truncation = "drop" to skip longer trajectories`
			}
		}
		return nil, counts, errext.With(errext.Input, hint, err)
	}
	most := t.bundle.Model.Config.MaxPositionEmbeddings
	for i := range rows {
		if n := len(rows[i].Tokens); n > most {
			return nil, counts, errext.With(errext.Input, fmt.Sprintf(`set sft.max_length to %d or less, and sft.truncation = "drop" to skip longer trajectories`, most),
				fmt.Errorf("task %s has %d tokens, the model %d positions", rows[i].TaskID, n, most))
		}
	}
	return rows, counts, nil
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
