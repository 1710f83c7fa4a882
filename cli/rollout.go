package cli

import "github.com/urfave/cli/v2"

// rolloutOptions are the command line of `openmanus rollout`.
type rolloutOptions struct {
	taskOptions
	Dump  string // file of the episodes, one JSON line each
	Force bool   // replace a dump that exists
}

func rolloutFlags() []cli.Flag {
	return append(taskFlags(),
		&cli.StringFlag{Name: "dump", Usage: "`FILE` for the episodes: a header, then one JSON line each"},
		&cli.BoolFlag{Name: "force", Usage: "replace a dump that exists"})
}

// parseRollout reads the flags of rolloutFlags.
func parseRollout(c *cli.Context) (rolloutOptions, error) {
	tasks, err := parseTasks(c)
	o := rolloutOptions{taskOptions: tasks, Dump: c.String("dump"), Force: c.Bool("force")}
	if o.Dump == "" {
		f := flagFaults{}
		if err != nil {
			f.errs = append(f.errs, err)
		}
		f.add("dump", "missing; give the file the episodes go to")
		err = f.err()
	}
	return o, err
}
