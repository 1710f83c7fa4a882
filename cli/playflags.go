package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// playFlags returns the flags that eval and rollout share.
func playFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "split", Value: "val", Usage: "tasks of CONFIG.toml to play: val or train"},
		setFlag(),
	}, flagsOf(playKeys()), []cli.Flag{
		serverLogsFlag(),
		tensorParallelFlag(),
		&cli.Float64Flag{Name: "max-lost", Value: run.MaxFailedValidation, Usage: "share of the episodes that may be lost to failures of servers or the engine before the command fails"},
		jsonFlag(),
	})
}

// playOptions returns the options of eval and rollout that are not configuration keys.
func playOptions(c *cli.Context) run.PlayOptions {
	return run.PlayOptions{ServerLogs: c.String("server-logs"), MaxLost: c.Float64("max-lost")}
}

// openRun opens a run whose error messages name flags in place of the keys that
// they override.
func (s *State) openRun(ctx context.Context, cfg configs.Config, flags []keyFlag) (*run.Run, error) {
	h := s.Host
	h.SettingName = func(key string) string {
		if name := flagOf(flags, key); name != "" {
			return "--" + name
		}
		return ""
	}
	return run.Open(ctx, cfg, h)
}

func serverLogsFlag() cli.Flag {
	return &cli.StringFlag{Name: "server-logs", Value: "servers", Usage: "`DIR` of the servers' logs"}
}

// serverLogs checks the value of serverLogsFlag.
func (f *flagFaults) serverLogs(c *cli.Context, launch bool) {
	if c.IsSet("server-logs") && !launch {
		f.add("server-logs", "only used with --launch: add --launch, or remove this flag")
	}
	if c.String("server-logs") == "" {
		f.add("server-logs", "missing; give a folder")
	}
}

// parsePlay merges the defaults, the configuration of the command line, and its
// flags. Without a configuration the defaults of the flags apply. It adds the
// errors of flags to f.
func (s *State) parsePlay(c *cli.Context, f *flagFaults) (cfg configs.Config, err error) {
	f.oneOf("split", c.String("split"), "val", "train")
	file := c.Args().First()
	if file == "" {
		for _, name := range []string{"split", "set"} {
			if c.IsSet(name) {
				f.add(name, "only used with a configuration: give CONFIG.toml, or remove this flag")
			}
		}
		cfg = schema.Defaults()
		cfg.Env = []configs.Env{run.Schema.DefaultEnv(c.String("env"))}
	} else {
		if err := f.err(); err != nil {
			return cfg, err
		}
		if cfg, err = s.loadPlayed(c, file); err != nil {
			return cfg, err
		}
	}
	obsTokens := cfg.Agent.MaxObsTokens
	completePlay(c, f, &cfg, playKeys(), file == "")
	f.needs(c, cfg)
	f.check(c, playKeys(), &cfg)
	if cfg.Rollout.Engine == engineOpenAI && file != "" && obsTokens != 0 {
		s.Log.Warn("observations are not shortened, since an endpoint does not report tokens", "agent.max_obs_tokens", obsTokens)
	}
	return cfg, nil
}

// completePlay stores the values of flags in cfg, which has one [[env]] table, and fills in what
// depends on them. If defaults is true, the default values of flags apply, too.
func completePlay(c *cli.Context, f *flagFaults, cfg *configs.Config, keys []keyFlag, defaults bool) {
	e := &cfg.Env[0]
	name := e.Name
	f.override(c, keys, cfg, defaults)
	e.Name = name // if --env is the label of the table, f.override has stored the label as the name
	cfg.ResolveKinds()
	if e.MaxTurns == 0 {
		if spec, err := run.SpecOf(*e); err == nil {
			e.MaxTurns = spec.MaxTurns
		}
	}
	if e.HistoryLength < 0 {
		e.HistoryLength = cfg.Agent.HistoryLength
	}
	if e.MemoryFile != "" && !c.IsSet("memory-file") && cfg.Unmet("env.0.memory_file") != "" { // the file's format used the memory file, but the format of --format does not
		e.MemoryFile = ""
	}
	if e.UseSummary && !c.IsSet("use-summary") && cfg.Unmet("env.0.use_summary") != "" {
		e.UseSummary = false
	}
}

// needs adds errors of missing and invalid values, and of flags that exclude each other.
func (f *flagFaults) needs(c *cli.Context, cfg configs.Config) {
	e := cfg.Env[0]
	if cfg.Rollout.Engine == engineLocal {
		f.need("model", cfg.Model.Path, "a Hugging Face folder or a .gguf file; or --base-url and --api-model for an endpoint")
	}
	f.need("env", e.Name, strings.Join(env.Names(), ", "))
	f.need("tasks", strings.Join(e.ValTasks, ","), taskForms)
	f.sampling(c)
	f.atLeast("history-length", c.Int("history-length"), 0)
	if e.UseSummary {
		f.need("summary-base-url", cfg.Agent.Summary.BaseURL, "the address of the endpoint that writes summaries")
	}
	f.serverLogs(c, e.Launch)
	if share := c.Float64("max-lost"); !(share >= 0 && share < 1) { // also true for NaN
		f.add("max-lost", "%v is not allowed; allowed: from 0 to below 1", share)
	}
}

// loadPlayed reads a configuration and keeps the environment and the tasks that
// --env and --split select.
func (s *State) loadPlayed(c *cli.Context, file string) (configs.Config, error) {
	cfg, err := s.loadConfig(file, "", c.StringSlice("set"))
	if err != nil {
		return cfg, err
	}
	e, err := chooseEnv(cfg, c.String("env"))
	if err != nil {
		return cfg, err
	}
	if c.String("split") == "train" {
		e.ValTasks = e.Tasks
	}
	if len(e.ValTasks) == 0 && !c.IsSet("tasks") {
		return cfg, errext.With(errext.Input, "choose the other split with --split, or give --tasks", fmt.Errorf("%s: environment %s has no tasks of the split %q", file, e.Called(), c.String("split")))
	}
	// A flag gives a list as one entry. Join the entries of a file, so that a dump records both in the same form.
	for _, list := range []*[]string{&e.ValTasks, &e.SkipTasks} {
		if len(*list) > 0 {
			*list = []string{strings.Join(*list, ",")}
		}
	}
	cfg.Env = []configs.Env{e}
	return cfg, nil
}

// chooseEnv returns the [[env]] table of a name, or the only table if name is
// empty.
func chooseEnv(cfg configs.Config, name string) (configs.Env, error) {
	if len(cfg.Env) == 0 {
		return configs.Env{}, run.ErrNoEnv
	}
	var names []string
	for _, e := range cfg.Env {
		if e.Called() == name || name == "" && len(cfg.Env) == 1 {
			return e, nil
		}
		names = append(names, e.Called())
	}
	err := errors.New("the configuration has several environments, and the command plays only one")
	if name != "" {
		err = fmt.Errorf("the configuration has no environment %q", name)
	}
	return configs.Env{}, errext.With(errext.Usage, "choose one with --env: "+strings.Join(names, ", "), err)
}
