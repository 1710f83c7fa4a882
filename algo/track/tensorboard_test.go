package track

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/readertest"
)

// TestRecord checks the checksums of RFC 3720, appendix B.4, and the bytes of a record that TensorFlow's reader accepts.
func TestRecord(t *testing.T) {
	ascending := make([]byte, 32)
	for i := range ascending {
		ascending[i] = byte(i)
	}
	for text, want := range map[string]uint32{string(make([]byte, 32)): 0x8a9136aa, string(ascending): 0x46dd794e, "123456789": 0xe3069283} {
		if got := crc32.Checksum([]byte(text), castagnoli); got != want {
			t.Errorf("CRC-32C of %q = %08x, want %08x", text, got, want)
		}
	}
	got := appendRecord([]byte("before"), []byte("123456789"))
	want := "before" + "\x09\x00\x00\x00\x00\x00\x00\x00" + "\x37\xf9\x71\x39" + "123456789" + "\xe5\xb0\x8a\xc7"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// readEvents prints the scalars, the wall times and the texts that TensorBoard finds in a folder. With a second folder it
// reads the first, puts the file of the second in its place, and reads on, as a TensorBoard that runs does.
const readEvents = `
import glob, json, os, shutil, sys
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
m = EventMultiplexer(size_guidance={}, tensor_size_guidance={"scalars": 0, "text": 0})
m.AddRun(sys.argv[1], "run")
m.Reload()
if len(sys.argv) > 2:
    for old in glob.glob(sys.argv[1] + "/*"):
        os.truncate(old, 0)
    shutil.copy(max(glob.glob(sys.argv[2] + "/*")), sys.argv[1] + "/events.out.tfevents.9999999999.openmanus")
    m.Reload()
from tensorboard.util import tensor_util
out = {}
for tag in sorted(m.Runs()["run"]["tensors"]):
    values = []
    for e in m.Tensors("run", tag):
        v = tensor_util.make_ndarray(e.tensor_proto)
        v = v.item() if v.shape == () else v[0].decode()
        values.append([e.step, e.wall_time, v])
    out[tag] = values
print(json.dumps(out))
`

// TestTensorBoard reads the file of a resumed run with TensorBoard.
func TestTensorBoard(t *testing.T) {
	r, file := testRun(t, nil)
	interrupted(t, r, file, "tensorboard")
	dir := filepath.Join(r.Folder, "tensorboard")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Fatalf("%d event files, want the emptied one and the new one (error %v)", len(entries), err)
	}
	const at = 1790000000.25
	want := map[string]any{
		"config":                 []any{[]any{0., at, "```toml\n" + testConfig + "```\n"}},
		"read/step":              []any{[]any{10., at, 10.}},
		"read/loss":              []any{[]any{10., at, 2.5}},
		"sft/step":               []any{[]any{1., at + 1, 1.}, []any{2., at + 2, 2.}},
		"sft/train/loss":         []any{[]any{1., at + 1, 1.5}, []any{2., at + 2, 1.25}},
		"sft/perf/rss_bytes":     []any{[]any{1., at + 1, 100.}, []any{2., at + 2, 101.}},
		"val/maze/success_rate":  []any{[]any{0., at + 3, 0.25}},
		"perf/rss_bytes":         []any{[]any{0., at + 3, 102.}, []any{1., at + 4, 103.}, []any{2., at + 5, 104.}},
		"training/global_step":   []any{[]any{1., at + 4, 1.}, []any{2., at + 5, 2.}},
		"critic/score/mean":      []any{[]any{1., at + 4, 0.5}, []any{2., at + 5, 0.75}},
		"val/maze/reward/mean@1": []any{[]any{2., at + 5, float64(float32(-1e-7))}},
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(readertest.Run(t, readEvents, dir)), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	// A TensorBoard that has read the file of a killed run drops its steps when the resumed run replaces the file.
	killed, file := testRun(t, nil)
	s := with(t, file, killed, "tensorboard")
	lines := testLines()
	writeLines(t, s, lines...)
	writeLines(t, s, Line{PhaseTrain, 3, lines[5].Time, Metrics{"critic/score/mean": 99}})
	closeSink(t, s)
	got = nil
	if err := json.Unmarshal([]byte(readertest.Run(t, readEvents, filepath.Join(killed.Folder, "tensorboard"), dir)), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after the file was replaced (-want +got):\n%s", d)
	}
}
