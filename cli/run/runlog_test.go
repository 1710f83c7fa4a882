package run

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunLogHoldsWhatQuietHides(t *testing.T) {
	var shown bytes.Buffer
	path := filepath.Join(t.TempDir(), "run.log")
	s := &Host{Log: slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelError}))}
	for _, outcome := range []error{errors.New("disk full"), nil} {
		end, err := keepLog(s, path)
		if err != nil {
			t.Fatal(err)
		}
		s.Log.Info("a server is back", "pause", 1500*time.Millisecond)
		s.Log.Debug("a debug line")
		if err := end(outcome); err != nil {
			t.Fatal(err)
		}
		s.Log.Info("after the run")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, `"msg":`)
		got = append(got, strings.TrimSpace(rest))
	}
	want := []string{`"a server is back","pause":"1.5s"}`, `"the run ended","error":"disk full"}`, `"a server is back","pause":"1.5s"}`, `"the run ended"}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("run.log:\n%s", text)
	}
	if shown.Len() > 0 {
		t.Errorf("shown under --quiet: %s", &shown)
	}

	s.Log = slog.New(slog.NewJSONHandler(&shown, &slog.HandlerOptions{Level: slog.LevelDebug}))
	end, err := keepLog(s, path)
	if err != nil {
		t.Fatal(err)
	}
	s.Log.Debug("a wanted line")
	if err := end(nil); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil || !strings.Contains(string(text), "a wanted line") {
		t.Errorf("with log level debug, run.log lacks the debug line; error: %v", err)
	}
}
