package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

func TestLoggerForm(t *testing.T) {
	ts := newTestState(t)
	ts.Log.Debug("hidden")
	ts.Log.Info("saved", "step", 3)
	printError(ts.State, errext.ErrInterrupted)
	if !regexp.MustCompile(`^time="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d" level=INFO msg=saved step=3\nopenmanus: interrupted\n$`).MatchString(ts.err.String()) {
		t.Errorf("log lines in a file: %q", ts.err)
	}

	ts = newTestState(t)
	ts.Terminal = true
	newLogger(ts.State, "debug").Debug("saved", "step", 3)
	if got := ts.err.String(); !strings.Contains(got, "level=DEBUG msg=saved step=3") || strings.Contains(got, "2001-") {
		t.Errorf("log lines on a terminal: %q", got)
	}
}

func TestConfigLevel(t *testing.T) {
	ts := newTestState(t)
	ts.ConfigLevel("warn")
	ts.Log.Info("hidden")
	ts.levelFixed = true
	ts.ConfigLevel("debug")
	ts.Log.Debug("hidden, because a flag set the level")
	if got := ts.err.String(); got != "" {
		t.Errorf("printed %q", got)
	}
}
