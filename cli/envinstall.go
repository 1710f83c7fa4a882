package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

func installFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkout", Usage: "`DIR` of AgentGym, the one that holds agentenv-textcraft and the others"},
		&cli.StringFlag{Name: "venv", Usage: "`DIR` of the virtual environment; without, .venv in the server's folder, where it is found again"},
		&cli.StringFlag{Name: "python", Usage: "interpreter to make it with; without, a fitting one is looked for"},
	}
}

// envInstall makes the virtual environment of one server. pip's words go to
// standard error.
func envInstall(ctx context.Context, s *State, c *cli.Context) error {
	name, err := serverName(c, "env install")
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
