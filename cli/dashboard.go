package cli

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/dashboard"
	"github.com/openmanus/openmanus/internal/errext"
)

// tokenVariable is the environment variable with the token of the dashboard.
const tokenVariable = "OPENMANUS_DASHBOARD_TOKEN"

// optionalAddr is the value of --dashboard: an address, which may be omitted.
type optionalAddr struct {
	set  bool
	addr string // complete
}

// Set takes the address, or "true" if it is omitted.
func (a *optionalAddr) Set(text string) (err error) {
	if text == "true" {
		text = ""
	}
	a.set = true
	a.addr, err = dashboard.ParseAddr(text)
	return err
}

// String returns the address.
func (a *optionalAddr) String() string { return a.addr }

// IsBoolFlag makes package flag accept --dashboard without a value.
func (a *optionalAddr) IsBoolFlag() bool { return true }

func dashboardFlag() cli.Flag {
	return &cli.GenericFlag{Name: "dashboard", Value: &optionalAddr{},
		Usage: "serve curves, running episodes and the log at `ADDR` while the run trains: PORT or HOST:PORT; without ADDR " + dashboard.DefaultAddr +
			"; an address of the network needs the printed token, or that of " + tokenVariable}
}

// startDashboard starts the dashboard of the flag and connects it with the host of a run. It returns nil without the flag.
func (s *State) startDashboard(ctx context.Context, c *cli.Context) (*dashboard.Dashboard, error) {
	flag, _ := c.Generic("dashboard").(*optionalAddr)
	if flag == nil || !flag.set {
		return nil, nil
	}
	version, err := s.version()
	if err != nil {
		return nil, err
	}
	d, err := dashboard.Start(ctx, dashboard.Options{
		Addr: flag.addr, Token: s.Getenv(tokenVariable), Made: "openmanus " + version.program(), Now: s.Now, Phases: phaseNames, Log: s.Log,
		Pieces: func(folder, file string) func([]int32) []string {
			pieces, err := s.piecesFor(viewOptions{Path: folder}, []string{file})
			if err != nil { // the page then shows ids
				s.Log.Warn("the tokenizer of the run cannot be read", "error", err)
			}
			return pieces
		},
	})
	if err != nil {
		return nil, errext.With(errext.Env, "give --dashboard another address; port 0 selects a free one", err)
	}
	return d, nil
}

// shownIn returns a log that d shows too.
func shownIn(d *dashboard.Dashboard, log *slog.Logger) *slog.Logger {
	return slog.New(slog.NewMultiHandler(log.Handler(), d.LogHandler()))
}
