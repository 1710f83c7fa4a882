package table

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func init() {
	// Register the format of files with one item id per line. The id "bad" is an error.
	Readers.Register(".ids", Reader{Format: "item ids", Read: func(_ context.Context, in *bufio.Reader, row func(int, *Record) error) error {
		for line := 1; ; line++ {
			id, err := in.ReadString('\n')
			if errors.Is(err, io.EOF) && id == "" {
				return nil
			}
			if id = strings.TrimSpace(id); id == "bad" {
				return errors.New("it is bad")
			}
			if err := row(line, &Record{ItemID: &id}); err != nil {
				return err
			}
		}
	}})
}

func TestReaders(t *testing.T) {
	var packed strings.Builder
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte("maze_4\nmaze_2"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.ids": "maze_4\nmaze_2\n", "a.ids.zst": packed.String()} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tasks, err := LoadTasks(t.Context(), path, LoadOptions{Env: "maze"})
		if err != nil || len(tasks) != 2 || tasks[1].Index != 2 || tasks[1].ID != "maze_2" {
			t.Errorf("%s holds %+v, %v", name, tasks, err)
		}
		info, err := Inspect(t.Context(), path, "")
		if err != nil || info.Format != "item ids" || info.Compressed != strings.HasSuffix(name, ".zst") {
			t.Errorf("%s is %+v, %v", name, info, err)
		}
		if first, err := LoadTasks(t.Context(), path, LoadOptions{Limit: 1}); err != nil || len(first) != 1 {
			t.Errorf("%s, first row: %+v, %v", name, first, err)
		}
	}
	path := write(t, "b.ids", "maze_1\nbad\n")
	if _, err := LoadTasks(t.Context(), path, LoadOptions{}); err == nil || !strings.Contains(err.Error(), "b.ids: row 1: it is bad") {
		t.Errorf("a broken row: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := LoadTasks(ctx, path, LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
