package track

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/readertest"
)

func TestCSV(t *testing.T) {
	r, file := testRun(t, nil)
	interrupted(t, r, file, "csv")
	got, err := os.ReadFile(filepath.Join(r.Folder, "metrics.csv"))
	want := `phase,step,time,read/loss,read/step,perf/rss_bytes,sft/step,train/loss,val/maze/success_rate,critic/score/mean,training/global_step,val/maze/reward/mean@1
read,10,1790000000.250,2.5,10,,,,,,,
sft,1,1790000001.250,,,100,1,1.5,,,,
sft,2,1790000002.250,,,101,2,1.25,,,,
train,0,1790000003.250,,,102,,,0.25,,,
train,1,1790000004.250,,,103,,,,0.5,1,
train,2,1790000005.250,,,104,,,,0.75,2,-1e-07
`
	if d := cmp.Diff(want, string(got)); d != "" || err != nil {
		t.Errorf("error %v, (-want +got):\n%s", err, d)
	}
}

// TestCSVInPython reads a file with awkward names and values with Python's csv.
func TestCSVInPython(t *testing.T) {
	r, file := testRun(t, nil)
	s := with(t, file, r, "csv")
	writeLines(t, s, Line{PhaseTrain, 1, time.Time{}, Metrics{`a,"b"`: math.NaN(), "c\nd": 0.1}}, Line{PhaseTrain, 2, time.Time{}, Metrics{"é": 1e300}})
	closeSink(t, s)
	out := readertest.Run(t, "import csv,json,sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8')))))", filepath.Join(r.Folder, "metrics.csv"))
	var got []map[string]string
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{
		{"phase": "train", "step": "1", "time": "", `a,"b"`: "NaN", "c\nd": "0.1", "é": ""},
		{"phase": "train", "step": "2", "time": "", `a,"b"`: "", "c\nd": "", "é": "1e+300"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
