package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/check"
	"github.com/openmanus/openmanus/internal/errext"
)

func checkCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "check",
		Usage:     "check that an idle server conforms to AgentGym's protocol",
		ArgsUsage: "URL",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "environment of the server; agentgym is a server of your own: " + strings.Join(check.Names(), ", ")},
			&cli.StringFlag{Name: "tasks", Usage: "two or more task indices that the server has, such as 0,1; default: indices that every server of the environment has"},
			&cli.StringFlag{Name: "actions", Usage: "actions to send to a server of your own (--env agentgym), separated by commas; they should not end the episode"},
			&cli.Float64Flag{Name: "timeout", Value: check.DefaultTimeout.Seconds(), Usage: "timeout of a request in seconds"},
			&cli.IntFlag{Name: "steps", Value: check.DefaultSteps, Usage: "number of steps whose duration is measured"},
			&cli.BoolFlag{Name: "limit", Usage: "also check what happens when a server of sqlgym runs out of instances; this disturbs other clients"},
			jsonFlag(),
		},
	}, 1, 1, envCheck)
}

// envCheck checks whether a server conforms to AgentGym's protocol.
func envCheck(ctx context.Context, s *State, c *cli.Context) error {
	o, err := parseCheck(c)
	if err != nil {
		return err
	}
	report, err := check.Run(ctx, o)
	if err != nil {
		return errext.With(errext.Usage, "", err)
	}
	if c.Bool("json") {
		err = s.printJSON(report)
	} else {
		err = errext.With(errext.Disk, "", report.Print(s.Stdout))
	}
	switch failed := report.Count(check.Fail); {
	case err != nil:
		return err
	case report.Unreachable:
		return errext.With(errext.Env, "is the server running?", fmt.Errorf("no server responds at %s", report.URL))
	case failed > 0:
		return errext.With(errext.Check, "the table lists the expected and the received replies",
			fmt.Errorf("%s: %d of %d checks failed", report.URL, failed, len(report.Results)))
	}
	return nil
}

func parseCheck(c *cli.Context) (check.Options, error) {
	o := check.Options{URL: c.Args().First(), Env: c.String("env"), Steps: c.Int("steps"), Limit: c.Bool("limit")}
	if msg := configs.ServerURL(o.URL); msg != "" {
		return o, usagef("%s", msg)
	}
	f := flagFaults{}
	if f.need("env", o.Env, strings.Join(check.Names(), ", ")) {
		f.oneOf("env", o.Env, check.Names()...)
	}
	if list := c.String("tasks"); list != "" {
		var err error
		if o.Tasks, err = configs.ParseIndices(list); err != nil {
			f.add("tasks", "%v", err)
		} else if len(o.Tasks) < 2 {
			f.add("tasks", "give two indices, such as 0,1, to distinguish sessions")
		}
	}
	if list := c.String("actions"); list != "" {
		if o.Actions = strings.Split(list, ","); o.Env != env.KindAgentGym {
			f.add("actions", "only used with --env %s", env.KindAgentGym)
		}
	}
	timeout := c.Float64("timeout")
	if !(timeout > 0 && timeout <= 86400) { // also true for NaN
		f.add("timeout", "%v is not allowed; allowed: above 0, at most 86400 seconds", timeout)
	}
	o.Timeout = run.Seconds(timeout)
	f.atLeast("steps", o.Steps, 1)
	return o, f.err()
}
