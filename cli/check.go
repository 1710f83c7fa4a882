package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/check"
	"github.com/openmanus/openmanus/internal/errext"
)

func checkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "env", Usage: "what the server is: " + strings.Join(check.Names(), ", ")},
		&cli.StringFlag{Name: "tasks", Usage: "two or more indices the server has, such as 0,1; without, those any server of the environment should have"},
		&cli.Float64Flag{Name: "timeout", Value: check.DefaultTimeout.Seconds(), Usage: "seconds one request may take; a server that takes longer fails"},
		&cli.IntFlag{Name: "steps", Value: check.DefaultSteps, Usage: "steps made to measure how long they take"},
		&cli.BoolFlag{Name: "limit", Usage: "make instances until one that is in use is given out again (sqlgym); only where nobody else plays"},
		jsonFlag(),
	}
}

// envCheck checks a server. Its exit code says whether a client would break.
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
		return errext.With(errext.Env, "is the server running?", fmt.Errorf("nobody answers at %s", report.URL))
	case failed > 0:
		return errext.With(errext.Check, "the table says what was expected and what came",
			fmt.Errorf("%s: %d of %d checks failed", report.URL, failed, len(report.Results)))
	}
	return nil
}

func parseCheck(c *cli.Context) (check.Options, error) {
	o := check.Options{URL: c.Args().First(), Env: c.String("env"), Steps: c.Int("steps"), Limit: c.Bool("limit")}
	if o.URL == "" {
		return o, usagef("env check needs the address of a server, such as http://127.0.0.1:36001")
	}
	f := flagFaults{}
	if msg := configs.ServerURL(o.URL); msg != "" {
		return o, usagef("%s", msg)
	}
	if f.need("env", o.Env, strings.Join(check.Names(), ", ")) {
		f.oneOf("env", o.Env, check.Names()...)
	}
	if list := c.String("tasks"); list != "" {
		for part := range strings.SplitSeq(list, ",") {
			index, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || index < 0 {
				f.add("tasks", "%q is no index; give two or more, such as 0,1", part)
				continue
			}
			o.Tasks = append(o.Tasks, index)
		}
		if len(f.errs) == 0 && (len(o.Tasks) < 2 || o.Tasks[0] == o.Tasks[1]) {
			f.add("tasks", "give two different indices, such as 0,1, so that sessions can be told apart")
		}
	}
	timeout := c.Float64("timeout")
	if !(timeout > 0 && timeout <= 86400) { // written so that NaN fails too
		f.add("timeout", "%v is not allowed; allowed: above 0, at most 86400 seconds", timeout)
	}
	o.Timeout = run.Seconds(timeout)
	f.atLeast("steps", o.Steps, 1)
	return o, f.err()
}
