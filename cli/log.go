package cli

import (
	"log/slog"

	"github.com/urfave/cli/v2"
)

func logFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-level", Usage: "least serious message shown: debug, info, warn, error"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "errors only, no progress"},
	}
}

func (s *State) applyLogFlags(c *cli.Context) error {
	level := c.String("log-level")
	switch level {
	case "debug", "info", "warn", "error", "":
	default:
		return usagef("--log-level: %q is not allowed; allowed: debug, info, warn, error", level)
	}
	s.Quiet = c.Bool("quiet")
	if s.Quiet && level == "" {
		level = "error"
	}
	if level != "" {
		s.levelFixed = true
		s.Log = newLogger(s, level)
	}
	return nil
}

// ConfigLevel sets the level a configuration asks for, which the command
// line's flags overrule.
func (s *State) ConfigLevel(level string) {
	if !s.levelFixed {
		s.Log = newLogger(s, level)
	}
}

// newLogger writes text for people to a terminal and JSON lines elsewhere.
func newLogger(s *State, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // levels are checked where they are read
	}
	o := &slog.HandlerOptions{Level: l}
	if !s.Terminal {
		return slog.New(slog.NewJSONHandler(s.Stderr, o))
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05"))
		}
		return a
	}
	return slog.New(slog.NewTextHandler(s.Stderr, o))
}
