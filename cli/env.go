package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

func envCommand(s *State) *cli.Command {
	return group(&cli.Command{
		Name:  "env",
		Usage: "list environments, start and check their servers",
		Subcommands: []*cli.Command{
			leaf(s, &cli.Command{
				Name:  "list",
				Usage: "list the environments",
				Flags: []cli.Flag{jsonFlag()},
			}, 0, envList),
			leaf(s, &cli.Command{
				Name:      "serve",
				Usage:     "serve a built-in environment over HTTP until interrupted",
				ArgsUsage: strings.Join(builtin.Names(), "|"),
				Flags:     serveFlags(),
			}, 1, envServe),
			leaf(s, &cli.Command{
				Name:      "install",
				Usage:     "create the virtual environment of an AgentGym server",
				ArgsUsage: strings.Join(supervise.Recipes(), "|"),
				Flags:     installFlags(),
			}, 1, envInstall),
			leaf(s, &cli.Command{
				Name:      "up",
				Usage:     "start AgentGym servers and restart them until interrupted",
				ArgsUsage: strings.Join(supervise.Recipes(), "|"),
				Flags:     upFlags(),
			}, 1, envUp),
			leaf(s, &cli.Command{
				Name:      "check",
				Usage:     "check that an idle server conforms to AgentGym's protocol",
				ArgsUsage: "URL",
				Flags:     checkFlags(),
			}, 1, envCheck),
			leaf(s, &cli.Command{
				Name:  "proxy",
				Usage: "forward to a server and inject faults until interrupted",
				Flags: proxyFlags(),
			}, 0, envProxy),
		},
	})
}

// envInfo is one entry of `env list --json`.
type envInfo struct {
	Name     string `json:"name"`
	Doc      string `json:"doc"`
	Builtin  bool   `json:"builtin"` // has a built-in server
	MaxTurns int    `json:"max_turns"`
}

func envList(_ context.Context, s *State, c *cli.Context) error {
	var all []envInfo
	for _, name := range env.Names() {
		spec, err := env.Lookup(name)
		if err != nil {
			return err
		}
		all = append(all, envInfo{name, spec.Doc, slices.Contains(builtin.Names(), name), spec.MaxTurns})
	}
	if c.Bool("json") {
		return s.printJSON(all)
	}
	w := tabwriter.NewWriter(s.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSERVER\tTURNS\tWHAT")
	for _, e := range all {
		server := "yours"
		if e.Builtin {
			server = "built in"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", e.Name, server, e.MaxTurns, e.Doc)
	}
	return errext.With(errext.Disk, "", w.Flush())
}
