package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// eval and rollout take the configuration of a run in place of most flags: the
// tasks of one of its environments are then played the way the run validates.
// Flags that are given all the same win.

// configuredFlags say which part of the configuration is played.
func configuredFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "split", Value: "val", Usage: "tasks of CONFIG.toml to play: val or train"},
		setFlag(),
	}
}

// rivals are flags of which those that are given keep the configuration from
// saying the others.
var rivals = [][]string{
	{"model", "base-url"},
	{"temperature", "greedy"},
	{"instruction", "instruction-file"},
	{"server", "launch"},
	{"format", "action-format"},
}

// fillFromConfig sets the flags that the command line leaves to its
// configuration. Without one it only refuses what would speak of it.
//
// What no flag says comes back: how servers are treated, and what is tried
// again.
func (s *State) fillFromConfig(c *cli.Context) (unflagged, error) {
	f := flagFaults{}
	usual := unflaggedOf(configs.Defaults(), configs.DefaultEnv(""))
	f.oneOf("split", c.String("split"), "val", "train")
	file := c.Args().First()
	if file == "" {
		for _, name := range []string{"split", "set"} {
			if c.IsSet(name) {
				f.add(name, "it speaks of a configuration, and none is given: give CONFIG.toml, or take it out")
			}
		}
		return usual, f.err()
	}
	if err := f.err(); err != nil {
		return usual, err
	}
	cfg, err := s.loadConfig(file, "", c.StringSlice("set"))
	if err != nil {
		return usual, err
	}
	e, err := chooseEnv(cfg, c.String("env"))
	if err != nil {
		return usual, err
	}
	device := cfg.Model.Device
	if c.IsSet("device") {
		device = c.String("device")
	}
	if cfg.Model.ComputeDtype, err = computeDtype(cfg.Model.ComputeDtype, device); err != nil {
		return usual, err
	}
	tasks := e.ValTasks
	if c.String("split") == "train" {
		tasks = e.Tasks
	}
	if len(tasks) == 0 && !c.IsSet("tasks") {
		return usual, errext.With(errext.Input, "choose the other with --split, or give --tasks", fmt.Errorf("%s: environment %s has no tasks of the split %q", file, e.Called(), c.String("split")))
	}
	if c.IsSet("base-url") && cfg.Agent.MaxObsTokens != 0 && !c.IsSet("max-obs-tokens") {
		s.Log.Warn("observations are shown whole: an endpoint does not tell its tokens", "agent.max_obs_tokens", cfg.Agent.MaxObsTokens)
	}
	summaries := summariesOf(cfg, e)
	if c.IsSet("use-summary") && !c.Bool("use-summary") { // then nobody writes any
		summaries = nil
	}
	own := unflaggedOf(cfg, e)
	if c.IsSet("timeout") { // it wins over the limit of every kind of call
		own.Timeouts = usual.Timeouts
	}
	if e.Launch && !c.IsSet("command") {
		own.Command = e.Command
	}
	if c.IsSet("env") { // it may be a label; from here on it is the environment
		if err := c.Set("env", e.Name); err != nil {
			return usual, errext.With(errext.Internal, "", err)
		}
	}
	return own, setUnset(c, slices.Concat(whoPlays(cfg, c), playedAs(cfg, e, tasks), summaries, serversOf(e), pace(s, cfg, e)))
}

// unflagged is what eval and rollout take from a configuration, or else from
// its defaults, and have no flags for.
type unflagged struct {
	Timeouts                                   env.Timeouts
	Retries                                    int // of create and reset, after the first try
	MaxInstances, MaxRequests, QuarantineAfter int
	Attempts, Replays                          int      // of an episode
	Command                                    []string // of a server that is started, as its words; nil: the flag's
}

func unflaggedOf(cfg configs.Config, e configs.Env) unflagged {
	w := worldOf(e)
	return unflagged{
		Timeouts: w.Timeouts, Retries: w.Retries,
		MaxInstances: w.MaxInstances, MaxRequests: w.MaxRequests, QuarantineAfter: w.QuarantineAfter,
		Attempts: cfg.Agent.EpisodeRetries + 1, Replays: cfg.Agent.EpisodeReplays,
	}
}

// chooseEnv is the environment of that name, or the only one there is.
func chooseEnv(cfg configs.Config, name string) (configs.Env, error) {
	if err := needsEnv(cfg); err != nil {
		return configs.Env{}, err
	}
	var names []string
	for _, e := range cfg.Env {
		if e.Called() == name || name == "" && len(cfg.Env) == 1 {
			return e, nil
		}
		names = append(names, e.Called())
	}
	what := errors.New("the configuration has several environments, and one is played at a time")
	if name != "" {
		what = fmt.Errorf("the configuration has no environment %q", name)
	}
	return configs.Env{}, errext.With(errext.Usage, "give one of them with --env: "+strings.Join(names, ", "), what)
}

// whoPlays are the flags of the model or the endpoint.
func whoPlays(cfg configs.Config, c *cli.Context) []flagValue {
	r := cfg.Rollout
	if r.Engine == "local" {
		flags := []flagValue{{"device", cfg.Model.Device}}
		if r.Deterministic {
			flags = append(flags, flagValue{"deterministic", switchedOn})
		}
		if cfg.Model.Path != "" {
			flags = append(flags, flagValue{"model", cfg.Model.Path})
		}
		return flags
	}
	if c.IsSet("model") {
		return nil
	}
	return []flagValue{
		{"base-url", r.API.BaseURL}, {"api-model", r.API.Model}, {"api-key-env", r.API.KeyEnv},
		{"api-concurrency", fmt.Sprint(r.API.Concurrency)}, {"api-timeout", number(r.API.TimeoutS)}, {"api-retries", fmt.Sprint(r.API.Retries)},
	}
}

// serversOf are the flags of servers that are started.
func serversOf(e configs.Env) []flagValue {
	if !e.Launch {
		return nil
	}
	flags := []flagValue{
		{"launch", switchedOn}, {"checkout", e.Checkout}, {"num-servers", fmt.Sprint(e.NumServers)}, {"base-port", fmt.Sprint(e.BasePort)},
		{"venv", e.Venv}, {"python", e.Python}, {"workdir", e.Workdir}, {"command", strings.Join(e.Command, " ")}, {"start-timeout", number(e.StartTimeoutS)},
		{"hang-timeout", number(e.HangTimeoutS)},
	}
	for _, name := range sortedKeys(e.Environment) {
		flags = append(flags, flagValue{"environment", name + "=" + e.Environment[name]})
	}
	return slices.DeleteFunc(flags, func(f flagValue) bool { return f.value == "" })
}

// pace are the flags that decide how fast it goes and when it gives up.
func pace(s *State, cfg configs.Config, e configs.Env) []flagValue {
	return []flagValue{{"concurrency", fmt.Sprint(rolloutBase(s, cfg).Concurrency)}, {"wait-healthy", number(e.WaitHealthyS)}}
}

// ofTheModel are flags that mean nothing to an endpoint.
var ofTheModel = []string{"device", "dtype", "deterministic", "max-obs-tokens"}

// setUnset sets flags that the command line does not give, nor a rival.
func setUnset(c *cli.Context, flags []flagValue) error {
	given := map[string]bool{}
	for _, name := range c.FlagNames() {
		given[name] = true
	}
	for _, group := range rivals {
		if slices.ContainsFunc(group, func(name string) bool { return given[name] }) {
			for _, name := range group {
				given[name] = true
			}
		}
	}
	if given["server"] {
		for _, flag := range launchFlags() {
			given[flag.Names()[0]] = true
		}
	}
	if c.IsSet("base-url") {
		for _, name := range ofTheModel {
			given[name] = true
		}
	}
	for _, f := range flags {
		if given[f.name] {
			continue
		}
		if err := c.Set(f.name, f.value); err != nil {
			return errext.With(errext.Input, "", fmt.Errorf("--%s %q, as the configuration says: %w", f.name, f.value, err))
		}
	}
	return nil
}
