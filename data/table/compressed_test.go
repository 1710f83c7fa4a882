package table

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data/dump"
)

// TestExpansion reads files with many compressed frames of blank lines, a few dozen bytes for each MB: one file
// within the limit and one above it.
func TestExpansion(t *testing.T) {
	row := `{"id":"maze_1","conversations":[]}` + "\n"
	blank := zstdFrames(t, strings.Repeat("\n", 1<<20))
	header := zstdFrames(t, `{"format":"`+dump.Format+`","version":`+"1"+`}`+"\n")
	for name, tc := range map[string]struct {
		frames [][]byte
		bomb   bool
	}{
		"short":               {[][]byte{zstdFrames(t, row), bytes.Repeat(blank, 8), zstdFrames(t, row)}, false},
		"blank lines":         {[][]byte{bytes.Repeat(blank, 100)}, true},
		"blank lines, row":    {[][]byte{zstdFrames(t, row), bytes.Repeat(blank, 100)}, true},
		"one line":            {[][]byte{zstdFrames(t, `{"id":"`), bytes.Repeat(zstdFrames(t, strings.Repeat("a", 1<<20)), 100)}, true},
		"dump, then one line": {[][]byte{header, bytes.Repeat(zstdFrames(t, strings.Repeat(" ", 1<<20)), 100)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.jsonl.zst")
			if err := os.WriteFile(path, bytes.Join(tc.frames, nil), 0o600); err != nil {
				t.Fatal(err)
			}
			rows := 0
			_, err := ReadSource(context.Background(), path, func(*Entry) error { rows++; return nil })
			switch {
			case tc.bomb && !errors.Is(err, dump.ErrExpansion):
				t.Errorf("error %v, want %v", err, dump.ErrExpansion)
			case tc.bomb && rows == 1: // the first rows can be read
				if _, err := ReadSource(context.Background(), path, func(*Entry) error { return errEnough }); !errors.Is(err, errEnough) {
					t.Errorf("the first row: error %v", err)
				}
			case !tc.bomb && (err != nil || rows != 2):
				t.Errorf("%d rows, error %v, want 2 rows", rows, err)
			}
		})
	}
}
