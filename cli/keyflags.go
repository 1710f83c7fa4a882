package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/supervise"
)

// keyFlag is a flag that overrides keys of the configuration. In a key,
// env.0 is the first [[env]] table. Commands that play episodes keep only this table.
type keyFlag struct {
	flag   cli.Flag
	keys   string                                         // separated by blanks; errors of these keys name the flag
	value  func(c *cli.Context, flag string) (any, error) // converts the value of the flag; nil: no conversion
	then   func(*cli.Context, *configs.Config)            // changes other keys if the flag is given
	always bool                                           // if the flag is absent, its default overrides the value in a file
	local  bool                                           // the flag is an error if an endpoint generates the replies
	needs  string                                         // flag without which the keys have no effect
}

func (k keyFlag) name() string { return k.flag.Names()[0] }

// flagOf returns the name of the flag that overrides a key, or "".
func flagOf(flags []keyFlag, key string) string {
	for _, k := range flags {
		if slices.Contains(strings.Fields(k.keys), key) {
			return k.name()
		}
	}
	return ""
}

// flagsOf returns the flags of groups of keyFlags.
func flagsOf(groups ...[]keyFlag) []cli.Flag {
	var flags []cli.Flag
	for _, k := range slices.Concat(groups...) {
		flags = append(flags, k.flag)
	}
	return flags
}

// override stores the values of given flags in cfg. If defaults is true,
// it also stores the default values of the other flags.
func (f *flagFaults) override(c *cli.Context, flags []keyFlag, cfg *configs.Config, defaults bool) {
	for _, k := range flags {
		if !c.IsSet(k.name()) && !k.always && !defaults {
			continue
		}
		value := c.Value(k.name())
		if k.value != nil {
			var err error
			if value, err = k.value(c, k.name()); err != nil {
				f.add(k.name(), "%v", err)
				continue
			}
		}
		for key := range strings.FieldsSeq(k.keys) {
			cfg.Set(key, value)
		}
	}
	for _, k := range flags {
		if k.then != nil && c.IsSet(k.name()) {
			k.then(c, cfg)
		}
	}
}

// check adds to f the errors of cfg and an error for each given flag that has no effect.
func (f *flagFaults) check(c *cli.Context, flags []keyFlag, cfg *configs.Config) {
	for _, k := range flags {
		if k.local && c.IsSet(k.name()) && cfg.Rollout.Engine != engineLocal {
			f.add(k.name(), "it does not apply to the endpoint of --base-url: remove this flag")
		}
	}
	f.values(flags, cfg)
	if len(f.errs) > 0 { // an invalid value may be the reason that a key has no effect
		return
	}
	for _, k := range flags {
		if on, ok := c.Value(k.name()).(bool); !c.IsSet(k.name()) || ok && !on || k.name() == "final-ends" {
			continue
		}
		for key := range strings.FieldsSeq(k.keys) {
			if condition := cfg.Unmet(key); condition != "" && !f.about(k.name()) {
				f.add(k.name(), "only used with %s: add that, or remove this flag", cmp.Or(k.needs, condition))
			}
		}
	}
}

// values adds to f the errors of cfg, each under the name of the flag that overrides
// the key. Keys without a flag come from a file, whose values are valid.
func (f *flagFaults) values(flags []keyFlag, cfg *configs.Config) {
	for _, fault := range cfg.PlayFaults() {
		if name := flagOf(flags, fault.Key); name != "" && !f.about(name) {
			f.add(name, "%s", fault.Msg)
		}
	}
}

const (
	engineLocal  = "local"
	engineOpenAI = "openai"
)

func deviceFlag() cli.Flag {
	return &cli.StringFlag{Name: "device", Value: "auto", Usage: "auto, cpu, cuda or cuda:N; a device that is missing is an error"}
}

func dtypeFlag() cli.Flag {
	return &cli.StringFlag{Name: "dtype", Value: "float32", Usage: "number format of the computation: float32 or bfloat16"}
}

func modelFlag() cli.Flag {
	return &cli.StringFlag{Name: "model", Usage: "Hugging Face folder, .gguf file, run (its best checkpoint, or RUN@latest, RUN@8) or name of a model on the hub"}
}

// modelKeys select the model of this process.
func modelKeys() []keyFlag {
	return []keyFlag{
		{flag: modelFlag(), keys: "model.path", local: true, then: useModel},
		{flag: deviceFlag(), keys: "model.device", local: true},
		{flag: dtypeFlag(), keys: "model.compute_dtype", local: true},
	}
}

// useModel makes the model of --model generate the replies.
func useModel(c *cli.Context, cfg *configs.Config) {
	cfg.Model.Fresh.Layers = 0
	if cfg.Rollout.Engine == engineLocal {
		return
	}
	cfg.Rollout.Engine = engineLocal
	if !c.IsSet("dtype") { // a file that uses an endpoint does not choose the dtype of a local model
		cfg.Model.ComputeDtype = "float32"
	}
}

// playKeys are the flags of eval and rollout that override keys.
func playKeys() []keyFlag {
	cfg := schema.Defaults()
	api, summary, server := cfg.Rollout.API, cfg.Agent.Summary, run.Schema.DefaultEnv("")
	clears := func(other string, clear func(*configs.Env)) func(*cli.Context, *configs.Config) {
		return func(c *cli.Context, cfg *configs.Config) {
			if !c.IsSet(other) {
				clear(&cfg.Env[0])
			}
		}
	}
	return slices.Concat(modelKeys(), []keyFlag{
		// The endpoint that replaces the model. A flag names an environment variable
		// for the API key, since other users can see command lines.
		{
			flag: &cli.StringFlag{Name: "base-url", Usage: "`URL` of an OpenAI-compatible endpoint that replaces --model, such as http://127.0.0.1:8000/v1"},
			keys: "rollout.api.base_url", value: endpointAddress, then: useEndpoint,
		},
		{flag: &cli.StringFlag{Name: "api-model", Usage: "`NAME` of the model at the endpoint"}, keys: "rollout.api.model", needs: "--base-url"},
		{flag: &cli.StringFlag{Name: "api-key-env", Value: api.KeyEnv, Usage: "environment `VARIABLE` with the API key of the endpoint; no key is sent if it is empty"}, keys: "rollout.api.key_env", needs: "--base-url"},
		{flag: &cli.IntFlag{Name: "api-concurrency", Usage: "concurrent requests to the endpoint; 0: one per concurrent episode"}, keys: "rollout.api.concurrency", needs: "--base-url"},
		{flag: &cli.Float64Flag{Name: "api-timeout", Value: api.TimeoutS, Usage: "timeout of a request to the endpoint in seconds"}, keys: "rollout.api.timeout_s", needs: "--base-url"},
		{flag: &cli.IntFlag{Name: "api-retries", Value: api.Retries, Usage: "retries after status 429 or 5xx, or a broken reply"}, keys: "rollout.api.retries", needs: "--base-url"},

		// The environment, its servers and its tasks.
		{flag: &cli.StringFlag{Name: "env", Usage: "environment: " + strings.Join(env.Names(), ", ")}, keys: "env.0.name"},
		{
			flag: &cli.StringSliceFlag{Name: "server", Usage: "`URL`[,URL...] of running servers; default: start the built-in server"},
			keys: "env.0.servers", value: addresses, then: func(c *cli.Context, cfg *configs.Config) { cfg.Env[0].Launch = c.Bool("launch") },
		},
		{flag: &cli.StringFlag{Name: "recipes", Usage: "`DIR` of Minecraft recipe files for the built-in textcraft"}, keys: "env.0.recipes"},
		{flag: &cli.StringFlag{Name: "vocabulary", Usage: "`FILE` of five-letter words for the built-in wordle"}, keys: "env.0.vocabulary"},
		{flag: &cli.StringFlag{Name: "tasks", Usage: taskForms}, keys: "env.0.val_tasks"},
		{flag: &cli.StringFlag{Name: "skip-tasks", Usage: "indices to skip, such as 25 or 3-5,25"}, keys: "env.0.skip_tasks"},

		// Limits.
		{flag: &cli.IntFlag{Name: "samples", Value: 1, Usage: "episodes per task"}, keys: "rollout.val.group_size"},
		{flag: &cli.IntFlag{Name: "max-turns", Usage: "maximum turns of an episode; 0: the environment's default"}, keys: "env.0.max_turns"},
		{flag: &cli.IntFlag{Name: "max-new-tokens", Value: 512, Usage: "maximum tokens of a reply"}, keys: "rollout.max_new_tokens"},
		{flag: &cli.IntFlag{Name: "max-context-tokens", Usage: "maximum tokens of an episode; 0: the model's limit"}, keys: "rollout.max_context_tokens"},
		{flag: &cli.IntFlag{Name: "max-obs-tokens", Usage: "tokens of an observation shown to the model; 0: all"}, keys: "agent.max_obs_tokens", local: true},
		{flag: &cli.IntFlag{Name: "max-parse-failures", Usage: "consecutive unparsable replies that end an episode; 0: never"}, keys: "agent.max_parse_failures"},
	}, samplingKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "concurrency", Value: 64, Usage: "episodes played at once"}, keys: "agent.max_workers rollout.max_sequences"},
		{flag: &cli.BoolFlag{Name: "deterministic", Usage: "form batches in a fixed order, so that a run can be repeated exactly"}, keys: "rollout.deterministic", local: true},

		// The prompt format.
		{
			flag: &cli.StringFlag{Name: "format", Value: env.FormatReact, Usage: "prompt format: how the model writes actions and sees the episode (--action-format changes the format react): " + strings.Join(schema.Formats(), ", ")},
			keys: "env.0.format", then: func(c *cli.Context, cfg *configs.Config) { cfg.Env[0].ActionFormat = c.String("action-format") },
		},
		{flag: &cli.IntFlag{Name: "history-length", Value: 2, Usage: "past turns in a prompt of the formats history and staged"}, keys: "env.0.history_length"},
		{flag: &cli.StringFlag{Name: "memory-file", Usage: "`FILE` of the memory of the format staged, read at the start and appended to"}, keys: "env.0.memory_file"},

		// The endpoint that writes the summaries of the format history.
		// OpenManus-RL has flags with these names, only for evaluation (spec 11.5).
		{flag: &cli.BoolFlag{Name: "use-summary", Usage: "in the format history, another model's summary of the past replaces the past turns"}, keys: "env.0.use_summary"},
		{
			flag: &cli.StringFlag{Name: "summary-base-url", Usage: "`URL` of the OpenAI-compatible endpoint that writes summaries"},
			keys: "agent.summary.base_url", value: endpointAddress, needs: "--use-summary",
		},
		{flag: &cli.StringFlag{Name: "summary-model", Value: summary.Model, Usage: "`NAME` of the model at the summary endpoint"}, keys: "agent.summary.model", needs: "--use-summary"},
		{flag: &cli.StringFlag{Name: "summary-key-env", Value: summary.KeyEnv, Usage: "environment `VARIABLE` with the API key of the summary endpoint; no key is sent if it is empty"}, keys: "agent.summary.key_env", needs: "--use-summary"},
		{flag: &cli.IntFlag{Name: "summary-concurrency", Value: summary.Concurrency, Usage: "summaries requested at once"}, keys: "agent.summary.concurrency", needs: "--use-summary"},
		{flag: &cli.Float64Flag{Name: "summary-timeout", Value: summary.TimeoutS, Usage: "timeout of a summary in seconds"}, keys: "agent.summary.timeout_s", needs: "--use-summary"},
		{flag: &cli.IntFlag{Name: "summary-max-tokens", Value: summary.MaxTokens, Usage: "maximum tokens of a summary"}, keys: "agent.summary.max_tokens", needs: "--use-summary"},
		{flag: &cli.Float64Flag{Name: "summary-temperature", Value: summary.Temperature, Usage: "sampling temperature of summaries"}, keys: "agent.summary.temperature", needs: "--use-summary"},

		// Requests to servers.
		{flag: &cli.BoolFlag{Name: "final-ends", Usage: "a reply that is a final answer in the format ends the episode even if the server would continue"}, keys: "env.0.final_ends"},
		{flag: &cli.StringFlag{Name: "parser", Value: server.Parser, Usage: "generation of AgentGym's action parser: g1 or g2"}, keys: "env.0.parser"},
		{
			flag: &cli.StringFlag{Name: "action-format", Value: env.FormatReact, Usage: "format of actions that AgentGym's client of alfworld, sciworld or webshop reads: react, function_calling or code_as_action"},
			keys: "env.0.action_format", then: clears("format", func(e *configs.Env) { e.Format = e.ActionFormat }),
		},
		{
			flag: &cli.Float64Flag{Name: "timeout", Value: server.TimeoutS, Usage: "timeout of a request to a server in seconds"},
			keys: "env.0.timeout_s", then: func(_ *cli.Context, cfg *configs.Config) { // --timeout replaces the timeouts of all kinds of requests
				e := &cfg.Env[0]
				e.CreateTimeoutS, e.ResetTimeoutS, e.StepTimeoutS, e.ObserveTimeoutS, e.CloseTimeoutS = 0, 0, 0, 0, server.CloseTimeoutS
			},
		},
		{flag: &cli.Float64Flag{Name: "wait-healthy", Value: server.WaitHealthyS, Usage: "seconds to wait for a server if all are down; when the command starts, one server must respond at once"}, keys: "env.0.wait_healthy_s"},
		{
			flag: &cli.StringFlag{Name: "instruction", Usage: "text that replaces the environment's instruction"},
			keys: "env.0.instruction", then: clears("instruction-file", func(e *configs.Env) { e.InstructionFile = "" }),
		},
		{
			flag: &cli.StringFlag{Name: "instruction-file", Usage: "text file that replaces the environment's instruction"},
			keys: "env.0.instruction_file", then: clears("instruction", func(e *configs.Env) { e.Instruction = "" }),
		},
		{
			flag: &cli.BoolFlag{Name: "launch", Usage: "start servers with the flags below, and stop them at the end"},
			keys: "env.0.launch", then: clears("server", func(e *configs.Env) { e.Servers = nil }),
		},
	}, launchKeys())
}

// useEndpoint makes the endpoint of --base-url generate the replies. It removes
// settings of the file that do not apply to an endpoint.
func useEndpoint(c *cli.Context, cfg *configs.Config) {
	if c.String("base-url") == "" {
		return
	}
	cfg.Rollout.Engine = engineOpenAI
	cfg.Rollout.Deterministic = false
	cfg.Agent.MaxObsTokens = 0
}

// endpointAddress normalizes the address of an endpoint.
func endpointAddress(c *cli.Context, flag string) (any, error) {
	if c.String(flag) == "" {
		return "", nil
	}
	return openai.BaseURL(c.String(flag))
}

const taskForms = "indices such as 0-9,17, or a .parquet, .jsonl or .json file"

// samplingKeys control how replies are sampled. They ignore rollout.top_p,
// rollout.top_k and trainer.seed in a file, which are settings of training.
func samplingKeys() []keyFlag {
	return []keyFlag{
		{flag: &cli.Float64Flag{Name: "temperature", Value: 1, Usage: "sampling temperature"}, keys: "rollout.val.temperature"},
		{flag: &cli.BoolFlag{Name: "greedy", Usage: "take the most likely token instead of sampling"}, then: func(c *cli.Context, cfg *configs.Config) {
			if cfg.Rollout.Val.Temperature = c.Float64("temperature"); c.Bool("greedy") {
				cfg.Rollout.Val.Temperature = 0
			}
		}},
		{flag: &cli.Float64Flag{Name: "top-p", Value: 1, Usage: "sample from the most likely tokens with this total probability"}, keys: "rollout.top_p", always: true},
		{flag: &cli.IntFlag{Name: "top-k", Value: -1, Usage: "sample from this number of the most likely tokens; -1 or 0: all"}, keys: "rollout.top_k", always: true},
		{flag: &cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of all random draws"}, keys: "trainer.seed", always: true},
	}
}

// sampling checks the flags of samplingKeys.
func (f *flagFaults) sampling(c *cli.Context) {
	switch {
	case c.Float64("temperature") == 0:
		f.add("temperature", "0 is not allowed: --greedy takes the most likely token")
	case c.Bool("greedy") && c.IsSet("temperature"):
		f.add("greedy", "--temperature is given as well: remove one of them")
	}
}

// launchKeys are the settings of servers that the program starts.
func launchKeys() []keyFlag {
	const needs = "--launch"
	usual := run.Schema.DefaultEnv("")
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "checkout", Usage: "`DIR` of an AgentGym checkout, with agentenv-textcraft and the other servers"}, keys: "env.0.checkout", needs: needs},
		{flag: &cli.IntFlag{Name: "num-servers", Value: usual.NumServers, Usage: "servers to start"}, keys: "env.0.num_servers", needs: needs},
		{flag: &cli.IntFlag{Name: "base-port", Value: supervise.DefaultBasePort, Usage: "port of the first server; the others use the following ports"}, keys: "env.0.base_port", needs: needs},
		{flag: &cli.StringFlag{Name: "venv", Usage: "virtual environment `DIR` of the servers; default: the environment that env install creates"}, keys: "env.0.venv", needs: needs},
		{flag: &cli.StringFlag{Name: "python", Usage: "Python interpreter of the servers, instead of --venv"}, keys: "env.0.python", needs: needs},
		{flag: &cli.StringFlag{Name: "workdir", Usage: "working folder `DIR` of the servers"}, keys: "env.0.workdir", needs: needs},
		{
			flag: &cli.StringFlag{Name: "command", Usage: "`COMMAND` of one server, split at spaces; {python}, {checkout}, {host} and {port} are filled in"},
			keys: "env.0.command", needs: needs, value: func(c *cli.Context, flag string) (any, error) { return strings.Fields(c.String(flag)), nil },
		},
		{
			flag: &cli.StringSliceFlag{Name: "environment", Usage: "`NAME=VALUE` of an environment variable of the servers; repeatable"},
			keys: "env.0.environment", needs: needs, value: variables,
		},
		{flag: &cli.Float64Flag{Name: "start-timeout", Usage: "seconds until a started server must respond; 0: the environment's default"}, keys: "env.0.start_timeout_s", needs: needs},
		{flag: &cli.Float64Flag{Name: "hang-timeout", Value: usual.HangTimeoutS, Usage: "seconds without a response after which a server is restarted; 0: never"}, keys: "env.0.hang_timeout_s", needs: needs},
	}
}

// addresses returns the values of a flag, split at commas.
func addresses(c *cli.Context, flag string) (any, error) {
	list := c.StringSlice(flag)
	if len(list) == 0 {
		return list, nil
	}
	return strings.Split(strings.Join(list, ","), ","), nil
}

// variables parses NAME=VALUE pairs. It returns nil if there are none.
func variables(c *cli.Context, flag string) (any, error) {
	var set map[string]string
	for _, pair := range c.StringSlice(flag) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", pair)
		}
		if set == nil {
			set = map[string]string{}
		}
		set[name] = value
	}
	return set, nil
}
