package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/env/supervise"
)

// Watchdog makes this process the watchdog of a server, if that is what it was
// started for: the first line of main. It ends with the code then.
func Watchdog(s *State) (code int, ok bool) {
	return supervise.Watchdog(s.Args, s.Stdin, s.Stderr)
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
