package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
)

// maxConfig is more than any configuration needs; configs itself has a
// stricter bound with a better message.
const maxConfig = 4 << 20

// defaultPreset is what commands use where neither a file nor --preset is given.
const defaultPreset = "quickstart"

func configCommand(s *State) *cli.Command {
	presetFlag := &cli.StringFlag{Name: "preset", Usage: "start from a built-in configuration: " + strings.Join(configs.PresetNames(), ", ")}
	return group(&cli.Command{
		Name:  "config",
		Usage: "write, print and check configurations",
		Subcommands: []*cli.Command{
			leaf(s, &cli.Command{
				Name:      "init",
				Usage:     "write a configuration with every key and what it means",
				ArgsUsage: "[FILE]",
				Description: "Writes to FILE, or to standard output where none is given. A FILE that exists\n" +
					"stays as it is unless --force is given.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "preset", Value: "grpo", Usage: presetFlag.Usage},
					setFlag(),
					&cli.BoolFlag{Name: "force", Usage: "replace a FILE that exists"},
				},
			}, 1, configInit),
			leaf(s, &cli.Command{
				Name:      "show",
				Usage:     "print a configuration with every key filled in",
				ArgsUsage: "[FILE]",
				Flags:     []cli.Flag{presetFlag, setFlag()},
			}, 1, configShow),
			leaf(s, &cli.Command{
				Name:      "check",
				Usage:     "say everything that is wrong with a configuration",
				ArgsUsage: "FILE",
				Flags:     []cli.Flag{presetFlag, setFlag()},
			}, 1, configCheck),
		},
	})
}

func setFlag() *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: "set", Usage: "override one key: --set actor.optim.lr=1e-5 (repeatable)"}
}

// loadConfig reads the configuration a command line names: a file ("-" is
// standard input), a preset, or the quickstart where it names neither.
func (s *State) loadConfig(file, preset string, sets []string) (configs.Config, error) {
	name, text := file, []byte(nil)
	switch {
	case file != "" && preset != "":
		return configs.Config{}, usagef("both a file (%s) and --preset %s are given: take out one of the two", file, preset)
	case file != "":
		b, err := s.ReadFile(file, maxConfig)
		if err != nil {
			return configs.Config{}, errWith(ExitInput, "give the path of a configuration; openmanus config init writes one", err)
		}
		text = b
	default:
		if preset == "" {
			preset = defaultPreset
		}
		b, err := configs.Preset(preset)
		if err != nil {
			return configs.Config{}, errWith(ExitUsage, "", err)
		}
		name, text = "preset "+preset, b
	}
	return configs.Load(name, text, sets)
}

func configInit(_ context.Context, s *State, c *cli.Context) error {
	cfg, err := s.loadConfig("", c.String("preset"), c.StringSlice("set"))
	if err != nil {
		return err
	}
	file := c.Args().First()
	if file == "" {
		return s.print(cfg.Marshal())
	}
	err = s.WriteFile(file, cfg.Marshal(), c.Bool("force"))
	if errors.Is(err, fs.ErrExist) {
		return errWith(ExitUsage, "choose another name, or give --force to replace it", fmt.Errorf("%s exists", file))
	}
	return errWith(ExitDisk, "give a path that can be written", err)
}

func configShow(_ context.Context, s *State, c *cli.Context) error {
	cfg, err := s.loadConfig(c.Args().First(), c.String("preset"), c.StringSlice("set"))
	if err != nil {
		return err
	}
	return s.print(cfg.Marshal())
}

func configCheck(_ context.Context, s *State, c *cli.Context) error {
	file := c.Args().First()
	if file == "" && c.String("preset") == "" {
		return usagef("config check needs a FILE (- is standard input) or --preset")
	}
	if _, err := s.loadConfig(file, c.String("preset"), c.StringSlice("set")); err != nil {
		return err
	}
	if file == "" {
		file = c.String("preset")
	}
	return s.print([]byte(file + ": ok\n"))
}

// print writes a command's result to standard output.
func (s *State) print(b []byte) error {
	_, err := s.Stdout.Write(b)
	return errWith(ExitDisk, "", err)
}
