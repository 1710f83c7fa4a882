package cli

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
)

func (s *State) applyLogFlags(c *cli.Context) error {
	level := c.String("log-level")
	if level != "" {
		f := flagFaults{}
		f.oneOf("log-level", level, "debug", "info", "warn", "error")
		if err := f.err(); err != nil {
			return err
		}
	}
	if s.quiet = c.Bool("quiet"); s.quiet {
		s.Progress = run.Host{}.WithDefaults().Progress // shows nothing
		level = cmp.Or(level, "error")
	}
	if level != "" {
		s.levelFixed = true
		s.Log = newLogger(s, level)
	}
	return nil
}

// ConfigLevel sets the log level to level (log.level of a configuration), unless a flag has set it.
func (s *State) ConfigLevel(level string) {
	if !s.levelFixed {
		s.Log = newLogger(s, level)
	}
}

// newLogger returns a logger that writes text to stderr. A run's run.log has the
// same messages as JSON lines.
func newLogger(s *State, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // cannot happen: levels are validated
	}
	form := time.DateTime
	if s.Terminal {
		form = time.TimeOnly
	}
	return slog.New(slog.NewTextHandler(s.Stderr, &slog.HandlerOptions{
		Level: l,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.String(slog.TimeKey, a.Value.Time().Format(form))
			}
			return a
		},
	}))
}
