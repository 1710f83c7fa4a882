package track

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/readertest"
)

// splitRecords reads a .wandb file: it returns the data of its records.
func splitRecords(t *testing.T, file []byte) [][]byte {
	t.Helper()
	if !bytes.HasPrefix(file, []byte(":W&B\xe1\xbe\x00")) {
		t.Fatalf("the file begins with %q", file[:min(len(file), 7)])
	}
	var out [][]byte
	for at := headerSize; at < len(file); {
		if left := blockSize - at%blockSize; left < headerSize {
			if !bytes.Equal(file[at:at+left], make([]byte, left)) {
				t.Fatalf("byte %d: the end of a block is not zero", at)
			}
			at += left
			continue
		}
		crc, n, kind := binary.LittleEndian.Uint32(file[at:]), int(binary.LittleEndian.Uint16(file[at+4:])), file[at+6]
		if at%blockSize+headerSize+n > blockSize {
			t.Fatalf("byte %d: a record crosses a block", at)
		}
		if crc32.ChecksumIEEE(file[at+6:at+headerSize+n]) != crc {
			t.Fatalf("byte %d: wrong checksum", at)
		}
		data := file[at+headerSize : at+headerSize+n]
		if kind == 1 || kind == 2 {
			out = append(out, slices.Clone(data))
		} else {
			out[len(out)-1] = append(out[len(out)-1], data...)
		}
		at += headerSize + n
	}
	return out
}

// TestRecordLog writes records that end at and around the end of a block.
func TestRecordLog(t *testing.T) {
	const room = blockSize - 2*headerSize // data of a record that fills the first block
	for _, size := range []int{0, 1, room - 8, room - 7, room - 6, room - 1, room, room + 1, room + blockSize, 3 * blockSize} {
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		log := newRecordLog(f)
		want := [][]byte{bytes.Repeat([]byte{7}, size), []byte("second"), bytes.Repeat([]byte{9}, 40000)}
		for _, data := range want {
			log.append(data)
			if err := log.flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		got := splitRecords(t, text)
		if len(got) != 3 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1]) || !bytes.Equal(got[2], want[2]) {
			t.Errorf("a first record of %d bytes: the records read differ from those written", size)
		}
	}
}

// wandbServer answers the requests of `wandb sync` and keeps the uploaded run.
type wandbServer struct {
	*httptest.Server
	mu       sync.Mutex
	run      map[string]any // variables of the first upsert
	config   string         // of the last upsert
	history  []map[string]any
	summary  string
	exitcode float64
}

func newWandbServer(t *testing.T) *wandbServer {
	s := &wandbServer{exitcode: -1}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		reply := `{"data":{}}`
		switch s.mu.Lock(); {
		case r.URL.Path == "/graphql" && bytes.Contains(text, []byte("mutation UpsertBucket")):
			var q struct{ Variables map[string]any }
			if err := json.Unmarshal(text, &q); err != nil {
				t.Error(err)
			}
			if s.run == nil {
				s.run = q.Variables
			}
			s.config, _ = q.Variables["config"].(string)
			reply = `{"data":{"upsertBucket":{"bucket":{"id":"b","name":"b","displayName":"night","historyLineCount":0,"project":{"id":"p","name":"demo","entity":{"id":"e","name":"us"}}},"inserted":true}}}`
		case r.URL.Path == "/graphql" && bytes.Contains(text, []byte("viewer")):
			reply = `{"data":{"viewer":{"id":"u","entity":"me","username":"me","flags":"{}","teams":{"edges":[]}}}}`
		case r.URL.Path == "/graphql" && bytes.Contains(text, []byte("mutation CreateRunFiles")):
			reply = `{"data":{"createRunFiles":{"runID":"b","uploadHeaders":[],"files":[]}}}`
		case strings.HasSuffix(r.URL.Path, "/file_stream"):
			var q struct {
				Files map[string]struct {
					Offset  int
					Content []string
				}
				Exitcode *float64
			}
			if err := json.Unmarshal(text, &q); err != nil {
				t.Error(err)
			}
			for _, line := range q.Files["wandb-history.jsonl"].Content {
				var m map[string]any
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Error(err)
				}
				s.history = append(s.history, m)
			}
			if c := q.Files["wandb-summary.json"].Content; len(c) > 0 {
				s.summary = c[len(c)-1]
			}
			if q.Exitcode != nil {
				s.exitcode = *q.Exitcode
			}
		}
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestWandb uploads the run of a resumed training with `wandb sync` to a server on this machine.
func TestWandb(t *testing.T) {
	readertest.Python(t)
	r, file := testRun(t, map[string]string{"WANDB_ENTITY": "us", "WANDB_RUN_GROUP": "nights", "WANDB_TAGS": "a,b"})
	interrupted(t, r, file, "wandb")
	found, err := filepath.Glob(filepath.Join(r.Folder, "wandb", "offline-run-20260921_141320-*", "run-*.wandb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found the files %v (error %v), want one", found, err)
	}
	id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "run-"), ".wandb")
	if !strings.HasSuffix(filepath.Dir(found[0]), "-"+id) || len(id) != 8 {
		t.Errorf("the id is %q in %s", id, found[0])
	}

	server := newWandbServer(t)
	for key, value := range map[string]string{
		"WANDB_BASE_URL": server.URL, "WANDB_API_KEY": strings.Repeat("a", 40), "HOME": t.TempDir(), "WANDB_ERROR_REPORTING": "false",
		"WANDB_MODE": "online", "WANDB_DIR": t.TempDir(),
	} {
		t.Setenv(key, value)
	}
	readertest.Run(t, "import sys; from wandb.cli import cli; cli.cli(sys.argv[1:])", "sync", filepath.Dir(found[0]))

	server.mu.Lock()
	defer server.mu.Unlock()
	for key, want := range map[string]any{"name": id, "project": "demo", "entity": "us", "groupName": "nights", "displayName": "night"} {
		if server.run[key] != want {
			t.Errorf("%s of the uploaded run is %v, want %v", key, server.run[key], want)
		}
	}
	if d := cmp.Diff([]any{"a", "b"}, server.run["tags"]); d != "" {
		t.Errorf("tags (-want +got):\n%s", d)
	}
	var config map[string]struct{ Value any }
	if err := json.Unmarshal([]byte(server.config), &config); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"trainer.project": "demo", "trainer.seed": 3., "actor.shuffle": true, "actor.stages": []any{"1:2", "9:4"}, "env.maze.tasks": "0-3",
	} {
		if d := cmp.Diff(want, config[key].Value); d != "" {
			t.Errorf("setting %s (-want +got):\n%s", key, d)
		}
	}
	if !strings.Contains(server.config, `"sft/train/loss"`) || !strings.Contains(server.config, `"sft/step"`) {
		t.Errorf("the axes of the metrics were not uploaded: %s", server.config)
	}
	const at = 1790000000.25
	row := func(n float64, values map[string]any) map[string]any {
		values["_step"], values["_timestamp"], values["_runtime"] = n, at+n, n
		return values
	}
	want := []map[string]any{
		row(0, map[string]any{"read/step": 10., "read/loss": 2.5}),
		row(1, map[string]any{"sft/step": 1., "sft/train/loss": 1.5, "sft/perf/rss_bytes": 100.}),
		row(2, map[string]any{"sft/step": 2., "sft/train/loss": 1.25, "sft/perf/rss_bytes": 101.}),
		row(3, map[string]any{"training/global_step": 0., "val/maze/success_rate": 0.25, "perf/rss_bytes": 102.}),
		row(4, map[string]any{"training/global_step": 1., "critic/score/mean": 0.5, "perf/rss_bytes": 103.}),
		row(5, map[string]any{"training/global_step": 2., "critic/score/mean": 0.75, "perf/rss_bytes": 104., "val/maze/reward/mean@1": -1e-7}),
	}
	if d := cmp.Diff(want, server.history); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	var summary map[string]any
	if err := json.Unmarshal([]byte(server.summary), &summary); err != nil || summary["critic/score/mean"] != 0.75 || summary["sft/train/loss"] != 1.25 {
		t.Errorf("summary %s, error %v", server.summary, err)
	}
	if server.exitcode != 0 {
		t.Errorf("exit code %g, want 0", server.exitcode)
	}
}

func TestJSONNumber(t *testing.T) {
	for want, x := range map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "0.1": 0.1, "1e+06": 1e6} {
		if got := jsonNumber(x); got != want {
			t.Errorf("%g is written as %s, want %s", x, got, want)
		}
	}
}

// TestWandbKeepsID checks that every process of a run writes the same W&B run.
func TestWandbKeepsID(t *testing.T) {
	r, file := testRun(t, nil)
	writeLines(t, file, testLines()[0])
	var ids []string
	for range 2 {
		if _, err := Export(t.Context(), r, "wandb"); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(r.Folder, "wandb", "*", "run-*.wandb"))
		if err != nil || len(found) != 1 {
			t.Fatalf("found %v, error %v", found, err)
		}
		ids = append(ids, found[0])
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if n := len(splitRecords(t, text)); n != 6 { // header, run, one metric, summary, history, exit
			t.Errorf("%d records, want 6", n)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the files of two processes are %v, want the same", ids)
	}
}
