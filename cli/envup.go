package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

func upCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "up",
		Usage:     "start AgentGym servers and restart them until interrupted",
		ArgsUsage: strings.Join(supervise.Recipes(), "|"),
		Flags:     append(flagsOf(launchKeys()), serverLogsFlag(), jsonFlag()),
	}, 1, 1, envUp)
}

// upServer is a line of `env up --json`: a server that responds.
type upServer struct {
	Env      string `json:"env"`
	URL      string `json:"url"`
	Restarts int    `json:"restarts"` // 0 at the first start
}

// envUp runs the servers of an environment. Like envServe it succeeds when it is
// interrupted.
func envUp(ctx context.Context, s *State, c *cli.Context) error {
	name, err := serverName(c)
	if err != nil {
		return err
	}
	f := flagFaults{}
	cfg := schema.Defaults()
	cfg.Env = []configs.Env{run.Schema.DefaultEnv(name)}
	cfg.Env[0].Launch = true
	f.override(c, launchKeys(), &cfg, true)
	f.check(c, launchKeys(), &cfg)
	f.serverLogs(c, true)
	if err := f.err(); err != nil {
		return err
	}
	var mu sync.Mutex  // guards standard output
	var printErr error // guarded by mu
	ready := func(url string, restarts int) {
		mu.Lock()
		defer mu.Unlock()
		text := name + " at " + url
		if restarts > 0 {
			text += " again"
		}
		err := s.printResult(upServer{name, url, restarts}, text+"\n", c.Bool("json"))
		printErr = cmp.Or(printErr, err)
	}
	g, err := run.LaunchServers(s.interrupts.Soft, &s.Host, cfg.Env[0], c.String("server-logs"), ready, nil)
	if err != nil {
		return err
	}
	s.Log.Info("servers are up; press Ctrl-C to stop them", "env", name, "servers", len(g.URLs()), "logs", filepath.Clean(c.String("server-logs")))
	<-s.interrupts.Soft.Done()
	if err := g.Close(s.interrupts.Hard); err != nil {
		return errext.With(errext.Env, "", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return printErr
}

// serverName returns the environment that the argument names.
func serverName(c *cli.Context) (string, error) {
	name := c.Args().First()
	known := slices.Concat(supervise.Recipes(), env.Names())
	if !slices.Contains(known, name) {
		slices.Sort(known)
		return "", unknown("environment", name, slices.Compact(known))
	}
	return name, nil
}

func installCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "install",
		Usage:     "create the virtual environment of an AgentGym server",
		ArgsUsage: strings.Join(supervise.Recipes(), "|"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "checkout", Usage: "`DIR` of an AgentGym checkout, with agentenv-textcraft and the other servers"},
			&cli.StringFlag{Name: "venv", Usage: "`DIR` of the virtual environment; default: .venv in the server's folder"},
			&cli.StringFlag{Name: "python", Usage: "Python interpreter of the virtual environment; default: a suitable one in PATH"},
		},
	}, 1, 1, envInstall)
}

// envInstall creates the virtual environment of a server. The output of pip goes
// to standard error.
func envInstall(ctx context.Context, s *State, c *cli.Context) error {
	name, err := serverName(c)
	if err != nil {
		return err
	}
	f := flagFaults{}
	checkout, venv, python := c.String("checkout"), c.String("venv"), c.String("python")
	f.need("checkout", checkout, "the folder of AgentGym")
	if err := f.err(); err != nil {
		return err
	}
	in := supervise.Install{Checkout: s.Path(checkout), Python: python, Output: s.Stderr}
	if venv != "" {
		in.Venv = s.Path(venv)
	}
	if strings.Contains(python, "/") {
		in.Python = s.Path(python)
	}
	made, err := supervise.VenvOf(ctx, name, in, s.Environ())
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return errext.With(errext.Input, "", err)
	}
	next := "openmanus env up " + name + " --checkout " + errext.ShellQuote(checkout)
	if venv != "" {
		next += " --venv " + errext.ShellQuote(venv)
	}
	return s.print([]byte(fmt.Sprintf("%s: virtual environment at %s\nNext: %s\n", name, made, next)))
}

// Watchdog runs the watchdog of an environment server if this process was
// started as one, and returns its exit code. main calls it first.
func Watchdog(s *State) (code int, ok bool) {
	return supervise.Watchdog(s.Args, s.Stdin, s.Stderr)
}
