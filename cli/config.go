package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// schema holds every configuration key.
var schema = run.Schema

// maxConfig bounds the size in bytes of a configuration file. It is
// above the limit of package configs, so that the better message of configs appears.
const maxConfig = 4 << 20

// defaultPreset is the preset if neither a file nor --preset is given.
const defaultPreset = "quickstart"

// defaultAlgorithm is the default preset if --env is set.
const defaultAlgorithm = "grpo"

func configCommand(s *State) *cli.Command {
	return group("config", "write, print and check configurations",
		leaf(s, &cli.Command{
			Name:      "init",
			Usage:     "write a configuration",
			ArgsUsage: "[FILE]",
			Description: "Writes the keys that one changes first and those that differ from their defaults; with --full, every key with\n" +
				"its documentation. Both mean the same. Without FILE it prints them. It does not replace an existing FILE\n" +
				"unless --force is given.",
			Flags: append(configFlags(defaultAlgorithm),
				&cli.BoolFlag{Name: "full", Usage: "write every key with its documentation"},
				&cli.BoolFlag{Name: "force", Usage: "replace an existing FILE"}),
		}, 0, 1, configInit),
		leaf(s, &cli.Command{
			Name:      "show",
			Usage:     "print a configuration with the values of all keys",
			ArgsUsage: "[FILE]",
			Flags:     configFlags(""),
		}, 0, 1, configShow),
		leaf(s, &cli.Command{
			Name:      "check",
			Usage:     "print all errors of a configuration",
			ArgsUsage: "FILE",
			Description: "With --deep it also opens the models (without their weights), reads the tasks, starts a task on every\n" +
				"server, and scores a sample with every score function.",
			Flags: append(configFlags(""), &cli.BoolFlag{Name: "deep", Usage: "open models, tasks, servers and score functions"}),
		}, 0, 1, configCheck),
		configImportCommand(s),
	)
}

// configFlags returns the flags that chosenConfig reads. The parameter preset is
// the default of --preset.
func configFlags(preset string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "preset", Value: preset, Usage: "start from a built-in configuration: " + strings.Join(configs.PresetNames(), ", ")},
		&cli.StringSliceFlag{Name: "env", Usage: "use the tasks and servers of this environment instead of the preset's (repeatable): " + strings.Join(configs.EnvPresetNames(), ", ")},
		setFlag(),
	}
}

func setFlag() *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: "set", Usage: "override one key: --set actor.optim.lr=1e-5 (repeatable)"}
}

// loadConfig reads the configuration in file ("-" is standard input), or else the
// preset. If both are empty, it reads defaultPreset.
func (s *State) loadConfig(file, preset string, sets []string) (configs.Config, error) {
	switch {
	case file != "" && preset != "":
		return configs.Config{}, usagef("both a file (%s) and --preset %s are given: remove one of them", file, preset)
	case file == "":
		return loadPreset(cmp.Or(preset, defaultPreset), nil, sets)
	}
	if info, err := s.Stat(file); err == nil && info.IsDir() {
		return configs.Config{}, s.folderForConfig(file)
	}
	text, err := s.ReadFile(file, maxConfig)
	if err != nil {
		return configs.Config{}, errext.With(errext.Input, "give the path of a configuration; openmanus config init writes one", err)
	}
	return schema.Load(file, text, sets)
}

// folderForConfig returns the error for a folder, such as a run, that is given as a configuration.
func (s *State) folderForConfig(dir string) error {
	hint := "give the path of a configuration; openmanus config init writes one"
	config := (&rundir.Folder{Dir: dir}).Config()
	if _, err := s.Stat(config); err == nil {
		hint = "give its configuration, " + errext.ShellQuote(config)
	}
	return errext.With(errext.Input, hint, fmt.Errorf("%s is a folder, not a configuration", dir))
}

// loadPreset reads a preset. An unknown name is a usage error.
func loadPreset(preset string, envs, sets []string) (configs.Config, error) {
	cfg, err := schema.LoadPreset(preset, envs, sets)
	var faults configs.Faults
	if err != nil && !errors.As(err, &faults) {
		return cfg, errext.With(errext.Usage, "", err)
	}
	return cfg, err
}

// chosenConfig returns the configuration of a file, or else of the flags --preset
// and --env, and applies the overrides of --set.
func (s *State) chosenConfig(c *cli.Context, file string, sets []string) (configs.Config, error) {
	preset, envs := c.String("preset"), c.StringSlice("env")
	switch {
	case len(envs) == 0:
		return s.loadConfig(file, preset, sets)
	case file != "":
		return configs.Config{}, usagef("--env %s cannot be combined with a file: %s has [[env]] tables", envs[0], file)
	case preset == "":
		preset = defaultAlgorithm
	}
	return loadPreset(preset, envs, sets)
}

func configInit(_ context.Context, s *State, c *cli.Context) error {
	cfg, err := s.chosenConfig(c, "", c.StringSlice("set"))
	if err != nil {
		return err
	}
	text := cfg.Marshal()
	if !c.Bool("full") {
		if text, err = shortConfig(cfg, c.String("preset"), c.StringSlice("env")); err != nil {
			return err
		}
	}
	file := c.Args().First()
	if file == "" {
		return s.print(text)
	}
	return s.writeConfig(file, text, c.Bool("force"), "choose another name, or give --force to replace it")
}

// shortConfig returns the short form of a configuration, with the comments of its presets.
func shortConfig(cfg configs.Config, preset string, envs []string) ([]byte, error) {
	var texts [][]byte
	for _, env := range envs {
		text, err := configs.EnvPreset(env)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	text, err := configs.Preset(preset)
	if err != nil {
		return nil, err
	}
	return cfg.Short(append(texts, text)...)
}

// writeConfig writes a configuration. If the file exists and force is false, it
// returns an error with the given hint.
func (s *State) writeConfig(file string, text []byte, force bool, hint string) error {
	err := s.WriteFile(file, text, force)
	if errors.Is(err, fs.ErrExist) {
		return errext.With(errext.Usage, hint, fmt.Errorf("%s exists", file))
	}
	return errext.With(errext.Disk, "give a path that can be written", err)
}

func configShow(_ context.Context, s *State, c *cli.Context) error {
	cfg, err := s.chosenConfig(c, c.Args().First(), c.StringSlice("set"))
	if err != nil {
		return err
	}
	return s.print(cfg.Marshal())
}

func configCheck(ctx context.Context, s *State, c *cli.Context) error {
	file := c.Args().First()
	if file == "" && c.String("preset") == "" && len(c.StringSlice("env")) == 0 {
		return usagef("config check needs a FILE (- is standard input) or --preset")
	}
	cfg, err := s.chosenConfig(c, file, c.StringSlice("set"))
	if err != nil {
		return err
	}
	file = cmp.Or(file, joined(c.String("preset"), strings.Join(c.StringSlice("env"), " ")))
	missing, notes := s.missingFiles(file, cfg)
	if len(missing) > 0 {
		return missing
	}
	var table string
	if c.Bool("deep") {
		if table, err = s.deepCheck(ctx, file, cfg); err != nil {
			return err
		}
	} else if err := s.checkTasks(ctx, cfg); err != nil {
		return err
	}
	text := file + ": ok for openmanus " + acceptedBy(cfg) + "\n" + table
	for _, note := range notes {
		text += "  " + note + "\n"
	}
	for _, d := range cfg.Derived {
		text += fmt.Sprintf("  derived: %s = %s, because %s does not fit %s\n", d.Key, d.Value, d.Default, d.Reason)
	}
	return s.print([]byte(text))
}

// acceptedBy lists the commands that accept a valid configuration, and the requirement of the others.
func acceptedBy(cfg configs.Config) string {
	local, dump, plays := cfg.Rollout.Engine == engineLocal, cfg.Data.FromDump != "", len(cfg.Env) > 0
	var commands []string
	if local && (plays || dump || cfg.Serve.Listen != "") {
		commands = append(commands, "train")
	}
	if local && cfg.SFT.Epochs > 0 {
		commands = append(commands, "sft")
	}
	if plays && !dump {
		commands = append(commands, "eval", "rollout")
	}
	last := len(commands) - 1
	text := strings.Join(commands, ", ")
	if last > 0 {
		text = strings.Join(commands[:last], ", ") + " and " + commands[last]
	}
	switch {
	case !local:
		text += "; an endpoint cannot be trained"
	case !plays && !dump:
		text += "; other commands need [[env]]"
	}
	return text
}

// print writes the result of a command to standard output.
func (s *State) print(b []byte) error {
	_, err := s.Stdout.Write(b)
	return errext.With(errext.Disk, "", err)
}
