package table

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestReadSourceFormats checks that every format is recognised by its content, compressed or not.
func TestReadSourceFormats(t *testing.T) {
	dump, err := os.ReadFile(mixedDump(t))
	if err != nil {
		t.Fatal(err)
	}
	spaced := strings.Replace(string(dump), `{"format":"openmanus-episodes",`, `{ "weights": "w", "format": "openmanus-episodes", `, 1)
	parquetFile, err := os.ReadFile(writeRecords(t, "x", Layout{Format: ParquetFile}, awkwardRecords()))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text   string
		format string
		rows   int
	}{
		"lines":   {`{"item_id":"a_1"}` + "\n" + `{"item_id":"a_2"}`, LinesFile, 2},
		"array":   {`[{"item_id":"a_1"},{"item_id":"a_2"}]`, ArrayFile, 2},
		"dump":    {string(dump), DumpFile, 6},
		"spaced":  {spaced, DumpFile, 6},
		"torn":    {string(dump[:len(dump)-9]), DumpFile, 5},
		"parquet": {string(parquetFile), ParquetFile, 5},
		"empty":   {"", LinesFile, 0},
	} {
		for _, packed := range []bool{false, true} {
			if packed && tc.format == ParquetFile {
				continue // parquet has its own compression
			}
			t.Run(name, func(t *testing.T) {
				text := tc.text
				if packed {
					text = string(zstdFrames(t, text))
				}
				rows := 0
				src, err := ReadSource(context.Background(), write(t, "x", text), func(e *Entry) error {
					if e.N != rows || (e.Episode != nil) != (tc.format == DumpFile) || (e.Record != nil) == (tc.format == DumpFile) {
						t.Errorf("entry %+v after %d rows", e, rows)
					}
					rows++
					return nil
				})
				packed := packed && text != ""
				if err != nil || src.Format != tc.format || src.Compressed != packed || rows != tc.rows || src.Torn != (name == "torn") {
					t.Errorf("%+v, %d rows, %v", src, rows, err)
				}
			})
		}
	}
}

func TestReadSourceErrors(t *testing.T) {
	header := `{"format":"openmanus-episodes","version":1}` + "\n"
	lines := zstdFrames(t, strings.Repeat(`{"item_id":"a_1"}`+"\n", 1000))
	for name, tc := range map[string]struct{ text, want string }{
		"cut, compressed":  {string(lines[:len(lines)-5]), "ends inside"},
		"damaged episode":  {header + "{\"mask\":[7]}\n", "line 2: mask[0] is 7"},
		"dump, newer":      {strings.Replace(header, ":1", ":9", 1), "version 9"},
		"binary":           {"\x7fELF\x00\x00", "no known format"},
		"deeply nested":    {`{"a":` + strings.Repeat("[", 20000), "ends inside"},
		"column of a kind": {`{"data_source":3}`, "row 0, line 1: json: cannot unmarshal number"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "x", tc.text)
			_, err := ReadSource(context.Background(), path, func(*Entry) error { return nil })
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Count(err.Error(), path) != 1 {
				t.Errorf("error %v, want %q and the path once", err, tc.want)
			}
		})
	}
	stop := errors.New("stop")
	if _, err := ReadSource(context.Background(), write(t, "x", `{"item_id":"a_1"}`), func(*Entry) error { return stop }); err != stop {
		t.Errorf("ReadSource returned %v, want the error of the visitor", err)
	}
	if _, err := ReadSource(context.Background(), filepath.Join(t.TempDir()), func(*Entry) error { return nil }); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// FuzzReadSource reads arbitrary bytes as a data file, writes the rows, and reads them again.
func FuzzReadSource(f *testing.F) {
	f.Add([]byte(`{"item_id":"a_1","conversations":[{"role":"user","content":"x"}]}`))
	f.Add([]byte(`[{"id":1, "prompt":[]},{"id":"x_2","extra_info":{"index":1}}]`))
	f.Add([]byte(`{"format":"openmanus-episodes","version":1}` + "\n" + `{"task_id":"a_1","mask":[1]}` + "\n{"))
	f.Add(zstdFrames(f, `{"item_id":"a_1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var records []Record
		_, err := ReadSource(context.Background(), write(t, "x", string(text)), func(e *Entry) error {
			if e.Record != nil {
				records = append(records, *e.Record)
			}
			return nil
		})
		if err != nil {
			return
		}
		if _, got := readRecords(t, writeRecords(t, "y.parquet", Layout{Format: ParquetFile}, records)); len(got) != len(records) {
			t.Errorf("%d rows written, %d read", len(records), len(got))
		}
	})
}

// zstdFrames compresses each text into its own frame.
func zstdFrames(t testing.TB, texts ...string) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	var out []byte
	for _, text := range texts {
		out = enc.EncodeAll([]byte(text), out)
	}
	return out
}
