package track

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConsoleColumns(t *testing.T) {
	var out bytes.Buffer
	c, err := NewConsole(&out, "b", "val/*/success_rate", "a")
	if err != nil {
		t.Fatal(err)
	}
	write(t, c, 1, Metrics{"a": 1.0 / 3, "b": 1, "hidden": 7})
	write(t, c, 2, Metrics{"a": 1e-6, "b": 0.123456789})
	write(t, c, 3, Metrics{"a": 0.5, "b": 2})
	write(t, c, 4, Metrics{"hidden": 1})
	write(t, c, 12345, Metrics{"val/maze/success_rate": 1, "val/wordle/success_rate": 0.25, "val/maze/x/success_rate": 9})
	want := `step     1  b 1  a 0.333333
step     2  b 0.123457  a 1e-06
step     3  b 2         a 0.5
step 12345  val/maze/success_rate 1  val/wordle/success_rate 0.25
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	out.Reset()
	all, err := NewConsole(&out)
	if err != nil {
		t.Fatal(err)
	}
	write(t, all, 7, Metrics{"long/name": 1, "x": math.NaN()})
	if want := "step 7\n  long/name  1\n  x          NaN\n"; out.String() != want {
		t.Errorf("block %q, want %q", out.String(), want)
	}
	if _, err := NewConsole(&out, "[bad"); err == nil {
		t.Error("a bad pattern was accepted")
	}
}

type failing struct{ writes, closes int }

var errSink = errors.New("sink failed")

func (f *failing) Write(int, Metrics) error { f.writes++; return errSink }
func (f *failing) Offset() (int64, error)   { return 77, nil }
func (f *failing) Close() error             { f.closes++; return errSink }

func TestMulti(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	bad := &failing{}
	file := open(t, path)
	m := Multi{file, bad, bad}
	if err := m.Write(1, Metrics{"x": 1}); !errors.Is(err, errSink) {
		t.Errorf("Write = %v", err)
	}
	if bad.writes != 2 || len(readAll(t, path)) != 1 {
		t.Errorf("%d writes, %d lines", bad.writes, len(readAll(t, path)))
	}
	if got, err := m.Offset(); got != int64(len("{\"step\":1,\"x\":1}\n")) || err != nil {
		t.Errorf("Offset = %d, %v", got, err)
	}
	if err := m.Close(); !errors.Is(err, errSink) || bad.closes != 2 {
		t.Errorf("Close = %v, %d closes", err, bad.closes)
	}
	if err := file.Write(2, nil); err == nil {
		t.Error("the file was not closed")
	}
	if got, err := (Multi{}).Offset(); got != 0 || err != nil {
		t.Errorf("Offset of nothing = %d, %v", got, err)
	}
}

func TestStat(t *testing.T) {
	m := Metrics{}
	StatOf([]float32{1, -2, 4}).Put(m, CriticScore)
	StatOf([]int{}).Put(m, "none")
	if d := cmp.Diff(Metrics{"critic/score/mean": 1, "critic/score/max": 4, "critic/score/min": -2}, m); d != "" {
		t.Error(d)
	}
	s := StatOf([]float64{1, math.NaN(), 3})
	if !math.IsNaN(s.Mean) || !math.IsNaN(s.Max) || !math.IsNaN(s.Min) {
		t.Errorf("a NaN was hidden: %+v", s)
	}
}

func TestTimer(t *testing.T) {
	now := time.Unix(0, 0)
	timer := NewTimer(func() time.Time { return now })
	pass := func(phase string, d time.Duration) {
		stop := timer.Start(phase)
		now = now.Add(d)
		stop()
	}
	whole := timer.Start("step")
	pass("gen", 1500*time.Millisecond)
	pass("gen", time.Second)
	pass("adv", 250*time.Millisecond)
	whole()
	m := Metrics{}
	timer.Put(m)
	if d := cmp.Diff(Metrics{"timing_s/gen": 2.5, "timing_s/adv": 0.25, "timing_s/step": 2.75}, m); d != "" {
		t.Error(d)
	}
	clear(m)
	timer.Put(m)
	if len(m) > 0 {
		t.Errorf("the next step starts with %v", m)
	}
}

func TestDescribe(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table {
		for _, name := range expand(d.Names) {
			if seen[name] || d.Meaning == "" {
				t.Errorf("%s is defined twice or without a meaning", name)
			}
			seen[name] = true
		}
	}
	for name, want := range map[string]bool{
		"critic/score/mean": true, "timing_s/gen": true, "val/maze/success_rate": true, "rollout/logprob_gap_k3": true, "actor/lr": true, "perf/rss_bytes": true,
		"response_length/clip_ratio": true, "critic/score": false, "critic/score/median": false, "unknown": false,
	} {
		if _, ok := Describe(name); ok != want {
			t.Errorf("Describe(%s) = %v, want %v", name, ok, want)
		}
	}
}
