package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestLoggerForm(t *testing.T) {
	ts := newTestState(t)
	ts.Log.Debug("hidden")
	ts.Log.Info("saved", "step", 3)
	var line map[string]any
	if err := json.Unmarshal([]byte(ts.err.String()), &line); err != nil || line["msg"] != "saved" || line["step"] != 3.0 {
		t.Errorf("not one JSON line: %q (%v)", ts.err.String(), err)
	}

	ts = newTestState(t)
	ts.Terminal = true
	newLogger(ts.State, "debug").Debug("saved", "step", 3)
	if got := ts.err.String(); !strings.Contains(got, "level=DEBUG msg=saved step=3") || strings.Contains(got, "2001-") {
		t.Errorf("not text for people: %q", got)
	}
}

func TestConfigLevel(t *testing.T) {
	ts := newTestState(t)
	ts.ConfigLevel("warn")
	ts.Log.Info("hidden")
	ts.levelFixed = true
	ts.ConfigLevel("debug")
	ts.Log.Debug("hidden too: a flag was given")
	if got := ts.err.String(); got != "" {
		t.Errorf("printed %q", got)
	}
}
