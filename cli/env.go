package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func envCommand(s *State) *cli.Command {
	return group("env", "list environments, start and check their servers",
		leaf(s, &cli.Command{Name: "list", Usage: "list the environments", Flags: []cli.Flag{jsonFlag()}}, 0, 0, envList),
		serveCommand(s),
		installCommand(s),
		upCommand(s),
		envNewCommand(s),
		checkCommand(s),
		proxyCommand(s),
	)
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
	rows := [][]string{{"name", "server", "turns", "task"}}
	for _, e := range all {
		server := "yours"
		if e.Builtin {
			server = "built in"
		}
		rows = append(rows, []string{e.Name, server, strconv.Itoa(e.MaxTurns), e.Doc})
	}
	return s.print([]byte(textwidth.Table("llrt", rows)))
}
