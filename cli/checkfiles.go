package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
)

// missingFiles returns a fault for each missing file, folder or program that a
// configuration names. source is the name of the configuration.
func (s *State) missingFiles(source string, cfg configs.Config) configs.Faults {
	var missing configs.Faults
	look := func(key, path, hint string) {
		if path == "" {
			return
		}
		if _, err := s.Stat(path); err != nil {
			missing = append(missing, configs.Fault{Source: source, Key: key, Msg: notThere(path, err, hint)})
		}
	}
	model := func(key, name string) {
		if _, err := s.Stat(run.ModelPath(&s.Host, name)); name != "" && err != nil {
			missing = append(missing, configs.Fault{Source: source, Key: key, Msg: notThere(name, err, run.ModelHint(&s.Host, name))})
		}
	}
	if cfg.Rollout.Engine == "local" {
		model("model.path", cfg.Model.Path)
	}
	model("model.tokenizer_path", cfg.Model.TokenizerPath)
	model("ref.path", cfg.Ref.Path)
	model("critic.path", cfg.Critic.Path)
	model("reward.model_path", cfg.Reward.ModelPath)
	look("data.from_dump", cfg.Data.FromDump, "give a dump of openmanus rollout")
	for i, e := range cfg.Env {
		at := fmt.Sprintf("env.%d.", i)
		for _, list := range []struct {
			key     string
			entries []string
		}{{"tasks", e.Tasks}, {"val_tasks", e.ValTasks}} {
			for part := range strings.SplitSeq(strings.Join(list.entries, ","), ",") {
				if part = strings.TrimSpace(part); run.Schema.IsTaskFile(part) {
					look(at+list.key, part, "give data files, or an index range such as \"0-199\"")
				}
			}
		}
		look(at+"instruction_file", e.InstructionFile, "give a text file")
		look(at+"recipes", e.Recipes, "give a folder of recipes, or remove the key")
		look(at+"vocabulary", e.Vocabulary, "give a file of words, or remove the key")
		if e.Launch {
			look(at+"checkout", e.Checkout, "give the folder of AgentGym's checkout")
		}
	}
	for _, file := range cfg.SFT.Files {
		look("sft.files", file, "give files of trajectories")
	}
	for _, file := range cfg.SFT.ValFiles {
		look("sft.val_files", file, "give files of trajectories")
	}
	if err := run.CheckPrograms(&s.Host, cfg.Reward); err != nil {
		missing = append(missing, configs.Fault{Source: source, Key: "reward", Msg: err.Error()})
	}
	return missing
}

// checkTasks reads the tasks of every [[env]] table, as a run does.
func (s *State) checkTasks(ctx context.Context, cfg configs.Config) error {
	var errs []error
	for _, e := range cfg.Env {
		spec, err := env.Lookup(e.Name)
		if err != nil {
			return err
		}
		_, err = run.LoadTasks(ctx, &s.Host, spec, run.ConfiguredTasks(e, "tasks", e.Tasks, 0, cfg.Data))
		errs = append(errs, err)
		_, err = run.LoadTasks(ctx, &s.Host, spec, run.ConfiguredTasks(e, "val_tasks", e.ValTasks, 0, cfg.Data))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notThere returns the message for a path that cannot be opened.
func notThere(path string, err error, hint string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s does not exist: %s", path, hint)
	}
	return err.Error()
}
