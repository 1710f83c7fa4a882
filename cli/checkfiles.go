package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/hub"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
)

// missingFiles returns a fault for each missing file, folder or program that a
// configuration names, and a note for each model that training will fetch. The
// parameter source is the name of the configuration.
func (s *State) missingFiles(source string, cfg configs.Config) (missing configs.Faults, notes []string) {
	add := func(key string, err error) {
		if err != nil {
			missing = append(missing, configs.Fault{Source: source, Key: key, Msg: err.Error()})
		}
	}
	look := func(key, path, hint string) {
		if path == "" {
			return
		}
		_, err := s.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s does not exist: %s", path, hint)
		}
		add(key, err)
	}
	model := func(key, name string) {
		if name != "" {
			_, err := run.LookUpModel(&s.Host, name)
			if errors.Is(err, hub.ErrNotCached) {
				notes = append(notes, fmt.Sprintf("%s: %v now, or train at its start", key, err))
				return
			}
			add(key, err)
		}
	}
	if cfg.Rollout.Engine == "local" {
		model("model.path", cfg.Model.Path)
	}
	model("model.tokenizer_path", cfg.Model.TokenizerPath)
	model("ref.path", cfg.Ref.Path)
	model("critic.path", cfg.Critic.Path)
	model("reward.model_path", cfg.Reward.ModelPath)
	if strings.HasSuffix(cfg.Model.ChatTemplate, ".jinja") {
		look("model.chat_template", cfg.Model.ChatTemplate, "give a file with a Jinja template")
	}
	look("data.from_dump", cfg.Data.FromDump, "give a dump of openmanus rollout")
	for i, e := range cfg.Env {
		at := fmt.Sprintf("env.%d.", i)
		advice := "give data files, or an index range such as \"0-199\""
		if e.Kind == configs.KindPrompt {
			advice = "give parquet or JSONL files of prompts and answers (docs/prompt-tasks.md)"
		}
		tasks := func(key string, entries []string) {
			for part := range strings.SplitSeq(strings.Join(entries, ","), ",") {
				if part = strings.TrimSpace(part); run.Schema.IsTaskFile(part) {
					look(at+key, part, advice)
				}
			}
		}
		tasks("tasks", e.Tasks)
		tasks("val_tasks", e.ValTasks)
		look(at+"instruction_file", e.InstructionFile, "give a text file")
		look(at+"recipes", e.Recipes, "give a folder of recipes, or remove the key")
		look(at+"vocabulary", e.Vocabulary, "give a file of words, or remove the key")
		if e.Launch {
			before := len(missing)
			look(at+"checkout", e.Checkout, "give the folder of AgentGym's checkout")
			if len(missing) == before {
				add(at+"launch", run.CheckLaunch(&s.Host, e))
			}
		}
	}
	for _, file := range cfg.SFT.Files {
		look("sft.files", file, "give files of trajectories")
	}
	for _, file := range cfg.SFT.ValFiles {
		look("sft.val_files", file, "give files of trajectories")
	}
	add("reward", run.CheckPrograms(&s.Host, cfg))
	return missing, notes
}

// checkTasks reads the tasks of every [[env]] table, as a run does.
func (s *State) checkTasks(ctx context.Context, cfg configs.Config) error {
	var errs []error
	for _, e := range cfg.Env {
		spec, err := run.SpecOf(e)
		if err != nil {
			return err
		}
		_, trainErr := run.LoadTasks(ctx, &s.Host, spec, run.ConfiguredTasks(e, "tasks", e.Tasks, 0, cfg.Data))
		_, valErr := run.LoadTasks(ctx, &s.Host, spec, run.ConfiguredTasks(e, "val_tasks", e.ValTasks, 0, cfg.Data))
		errs = append(errs, trainErr, valErr)
	}
	return errors.Join(errs...)
}
