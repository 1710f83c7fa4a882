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

func serverLogsFlag() cli.Flag {
	return &cli.StringFlag{Name: "server-logs", Value: "servers", Usage: "`DIR` of the servers' logs"}
}

// serverLogs checks the value of serverLogsFlag.
func (f *flagFaults) serverLogs(c *cli.Context, launch bool) {
	if c.IsSet("server-logs") && !launch {
		f.add("server-logs", "only used with --launch: add that, or leave it out")
	}
	if c.String("server-logs") == "" {
		f.add("server-logs", "missing; give a folder")
	}
}
