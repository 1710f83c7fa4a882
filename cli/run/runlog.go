package run

import (
	"context"

	"log/slog"

	"github.com/openmanus/openmanus/internal/errext"
)

// keepLog also writes what is logged from here on to a file, as JSON lines
// and whatever --quiet keeps off the terminal. What it returns ends that and
// leaves how the run ended as the last line.
func keepLog(h *Host, path string) (end func(outcome error) error, err error) {
	f, err := h.Append(path)
	if err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	shown := h.Log
	level := slog.LevelInfo
	if shown.Enabled(context.Background(), slog.LevelDebug) {
		level = slog.LevelDebug
	}
	file := slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // 1.5s, not nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}})
	h.Log = slog.New(slog.NewMultiHandler(shown.Handler(), file))
	return func(outcome error) error {
		h.Log = shown
		if outcome != nil {
			slog.New(file).Error("the run ended", "error", outcome)
		} else {
			slog.New(file).Info("the run ended")
		}
		return f.Close()
	}, nil
}
