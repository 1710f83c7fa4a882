package cli

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

// launchOptions say which servers of an environment are started, and how.
type launchOptions struct {
	supervise.Launch
	Servers      int
	BasePort     int
	StartTimeout time.Duration // 0: the recipe's
	HangTimeout  time.Duration // 0: a server that hangs is left to itself
	Logs         string        // folder
}

// Watchdog makes this process the watchdog of a server, if that is what it was
// started for: the first line of main. It ends with the code then.
func Watchdog(s *State) (code int, ok bool) {
	return supervise.Watchdog(s.Args, s.Stdin, s.Stderr)
}

// launchOf says how the servers of a configured environment are started; nil
// where they are not. Their logs go to a folder of the run.
func launchOf(e configs.Env, logs string) *launchOptions {
	if !e.Launch {
		return nil
	}
	return &launchOptions{
		Launch: supervise.Launch{
			Checkout: e.Checkout, Workdir: e.Workdir, Command: e.Command, Python: e.Python, Venv: e.Venv, Set: e.Environment,
		},
		Servers: e.NumServers, BasePort: e.BasePort, StartTimeout: seconds(e.StartTimeoutS), HangTimeout: seconds(e.HangTimeoutS), Logs: logs,
	}
}

// launch starts servers and returns when all answer.
func (s *State) launch(ctx context.Context, name string, o launchOptions, onReady func(string, int), onDown func(string, error)) (*supervise.Group, error) {
	l := o.Launch
	for _, path := range []*string{&l.Checkout, &l.Workdir, &l.Venv} {
		if *path != "" {
			*path = s.Path(*path)
		}
	}
	if strings.Contains(l.Python, "/") {
		l.Python = s.Path(l.Python)
	}
	plan, err := supervise.NewPlan(name, l, s.Environ())
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	if o.StartTimeout > 0 {
		plan.StartTimeout = o.StartTimeout
	}
	s.Log.Info("starting environment servers", "env", name, "servers", o.Servers, "base_port", o.BasePort, "logs", o.Logs)
	g, err := supervise.Start(ctx, supervise.Options{
		Name: name, Command: plan.Command, Servers: o.Servers, BasePort: o.BasePort, LogDir: s.Path(o.Logs),
		StartTimeout: plan.StartTimeout, HangTimeout: o.HangTimeout, OnReady: onReady, OnDown: onDown, Log: s.Log,
	})
	if err != nil && ctx.Err() != nil {
		return nil, err // the user had enough
	}
	hint := ""
	if plan.NotInstalled(err) {
		hint = "run this first: openmanus env install " + name + " --checkout " + quoted(o.Checkout)
	}
	return g, errext.With(errext.Env, hint, err)
}

// launchFlags returns the flags behind launchOptions.
func launchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkout", Usage: "`DIR` of AgentGym, the one that holds agentenv-textcraft and the others"},
		&cli.IntFlag{Name: "num-servers", Value: 1, Usage: "servers to start"},
		&cli.IntFlag{Name: "base-port", Value: supervise.DefaultBasePort, Usage: "port of the first; the others have those after it"},
		&cli.StringFlag{Name: "venv", Usage: "virtual environment `DIR` of the servers; without, the one that env install made"},
		&cli.StringFlag{Name: "python", Usage: "interpreter of the servers, instead of --venv"},
		&cli.StringFlag{Name: "workdir", Usage: "working folder `DIR` of the servers"},
		&cli.StringFlag{Name: "command", Usage: "`COMMAND` of one server, split at spaces; {python}, {checkout}, {host} and {port} are filled in"},
		&cli.StringSliceFlag{Name: "environment", Usage: "`NAME=VALUE` of an environment variable of the servers; may be given again"},
		&cli.Float64Flag{Name: "start-timeout", Usage: "seconds a server may take until it answers; 0: as long as its kind takes"},
		&cli.Float64Flag{Name: "hang-timeout", Value: configs.DefaultEnv("").HangTimeoutS, Usage: "seconds after which a server that answers nothing any more is started again; 0: never"},
		&cli.StringFlag{Name: "server-logs", Value: "servers", Usage: "`DIR` of the servers' logs"},
	}
}

// parseLaunch reads the flags of launchFlags.
func parseLaunch(c *cli.Context, f *flagFaults) launchOptions {
	o := launchOptions{
		Launch: supervise.Launch{
			Checkout: c.String("checkout"), Workdir: c.String("workdir"), Command: strings.Fields(c.String("command")),
			Python: c.String("python"), Venv: c.String("venv"),
		},
		Servers: c.Int("num-servers"), BasePort: c.Int("base-port"), StartTimeout: seconds(c.Float64("start-timeout")),
		HangTimeout: seconds(c.Float64("hang-timeout")), Logs: c.String("server-logs"),
	}
	f.atLeast("num-servers", o.Servers, 1)
	if o.BasePort < 1 || o.BasePort > 65535-max(o.Servers, 1)+1 {
		f.add("base-port", "%d is not allowed; the ports of %d servers go from 1 to 65535", o.BasePort, o.Servers)
	}
	if t := c.Float64("start-timeout"); !(t >= 0 && t <= 86400) {
		f.add("start-timeout", "%v is not allowed; allowed: from 0 to 86400 seconds", t)
	}
	if t := c.Float64("hang-timeout"); !(t >= 0 && t <= 86400) {
		f.add("hang-timeout", "%v is not allowed; allowed: from 0 to 86400 seconds", t)
	}
	if o.Checkout == "" && len(o.Command) == 0 {
		f.add("checkout", "missing; give the folder of AgentGym, or a --command")
	}
	if o.Python != "" && o.Venv != "" {
		f.add("venv", "--python is given as well: take out one of the two")
	}
	for _, kv := range c.StringSlice("environment") {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			f.add("environment", "%q is not NAME=VALUE", kv)
			continue
		}
		if o.Set == nil {
			o.Set = map[string]string{}
		}
		o.Set[key] = value
	}
	if o.Logs == "" {
		f.add("server-logs", "missing; give a folder")
	}
	return o
}

// parseOptionalLaunch is parseLaunch where servers are started on demand only.
func parseOptionalLaunch(c *cli.Context, f *flagFaults) *launchOptions {
	if c.Bool("launch") {
		o := parseLaunch(c, f)
		return &o
	}
	for _, flag := range launchFlags() {
		if name := flag.Names()[0]; c.IsSet(name) {
			f.add(name, "it says how servers are started, and none are: give --launch, or take it out")
		}
	}
	return nil
}
