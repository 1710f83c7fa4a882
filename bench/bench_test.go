package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/torch"
)

func startPeer(t *testing.T, how string) (*Peer, error) {
	t.Helper()
	t.Setenv(playPeer, how)
	return OpenPeer(t.Context(), []string{os.Args[0]}, "model.gguf", 3, torch.BFloat16, t.Output())
}

func TestPeer(t *testing.T) {
	p, err := startPeer(t, "well")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(PeerReady{Versions: map[string]string{"transformers": "5", "type": "bfloat16"}, Threads: 3}, p.Ready); d != "" {
		t.Error(d)
	}
	for _, batch := range []int{2, 5} { // a job takes as many seconds as it has tokens
		took, err := p.Run(t.Context(), Job{Name: "job", Kind: Prefill, Batch: batch, Tokens: 3})
		if err != nil || took != time.Duration(3*batch)*time.Second {
			t.Errorf("a job of batch %d took %v, want %d s (error %v)", batch, took, 3*batch, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPeerFails(t *testing.T) {
	if _, err := startPeer(t, "broken"); err == nil || !strings.Contains(err.Error(), "load the peer's model") {
		t.Errorf("a peer whose packages are missing: got error %v, want \"load the peer's model\"", err)
	}
	for how, want := range map[string]string{"dies": "ended without an answer", "mumbles": `it answered "warming up`} {
		t.Run(how, func(t *testing.T) {
			p, err := startPeer(t, how)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }() // the error of Run is checked below
			if _, err := p.Run(t.Context(), Job{Name: "job", Batch: 1}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one that contains %q", err, want)
			}
		})
	}
}

// scriptedSide returns the given times, one after another.
type scriptedSide struct {
	name  string
	times []float64
	log   *[]string
}

func (s *scriptedSide) Run(context.Context, Job) (time.Duration, error) {
	if len(s.times) == 0 {
		return 0, errors.New("one run too many")
	}
	*s.log = append(*s.log, s.name)
	took := time.Duration(s.times[0] * float64(time.Second))
	s.times = s.times[1:]
	return took, nil
}

func TestCompare(t *testing.T) {
	var log []string
	ours := &scriptedSide{"ours", []float64{0.5, 4, 1, 2}, &log}   // the first run is not counted
	peer := &scriptedSide{"peer", []float64{25, 3, 5}, &log}       // it is, because it is long
	form := &scriptedSide{"again", []float64{0.1, 6, 10, 9}, &log} // another form of the job
	j := Job{Name: "x", Kind: Decode, Batch: 3, New: 4}
	rivals := []Rival{{Form: Form{Peer: "peer"}, Side: peer}, {Form: Form{Peer: "peer", Form: "again"}, Side: form}}
	got, err := compare(t.Context(), j, ours, rivals, 3, longRun, func() error {
		log = append(log, "probe")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Comparison{Job: j, Unit: "tokens/s", Ours: 6, OursSeconds: []float64{4, 1, 2}, Peers: []PeerRate{
		{Name: "peer", Rate: 2.4, Ratio: 2.5, Seconds: []float64{25, 3, 5}},
		{Name: "peer again", Rate: 12. / 9, Ratio: 4.5, Seconds: []float64{6, 10, 9}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if order := strings.Join(log, " "); order != "probe ours peer again probe ours peer again probe ours peer again probe ours again" {
		t.Errorf("the sides ran in the order %q, want turns", order)
	}
	if row := strings.Join(got.row(), "|"); row != "x||6 tokens/s|||peer 2.4 (2.50 x), peer again 1.333 (4.50 x)" {
		t.Errorf("the row is %q", row)
	}
	log = nil
	long, err := compare(t.Context(), j, &scriptedSide{"ours", []float64{24}, &log}, nil, 1, longRun, func() error {
		log = append(log, "probe")
		return nil
	})
	if order := strings.Join(log, " "); err != nil || long.Ours != 0.5 || order != "probe ours" {
		t.Errorf("a long run alone: got %+v (error %v) in the order %q, want one probe and one run", long, err, order)
	}
	alone, err := compare(t.Context(), j, &scriptedSide{"ours", []float64{1, 2}, &log}, nil, 1, longRun, nil)
	if err != nil || alone.Ours != 6 || alone.Peers != nil {
		t.Errorf("without a peer: got %+v (error %v), want ours 6 and no peers", alone, err)
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		job  Job
		n    int
		unit string
	}{
		{Job{Kind: Prefill, Batch: 2, Tokens: 7}, 14, "tokens/s"},
		{Job{Kind: Decode, Batch: 2, New: 7, Context: 9}, 14, "tokens/s"},
		{Job{Kind: Turns, Batch: 2, Turns: 3, New: 7}, 6, "turns/s"},
		{Job{Kind: Train, Batch: 2, Tokens: 7}, 14, "tokens/s"},
		{Job{Kind: Train, Batch: 3, Tokens: 20, Ragged: true}, 16 + 18 + 20, "tokens/s"},
		{Job{Kind: Train, Batch: 2, Tokens: 20, Ragged: true, Shortest: 4}, 24, "tokens/s"},
		{Job{Kind: Turns, Batch: 5, Turns: 3, Fewest: 2, New: 7}, 2 + 3 + 2 + 3 + 2, "turns/s"},
	} {
		if n, unit := tt.job.Units(); n != tt.n || unit != tt.unit {
			t.Errorf("%s: got %d %s, want %d %s", tt.job.Kind, n, unit, tt.n, tt.unit)
		}
	}
}

// TestOurs runs every kind of job with small sizes and checks the engine's counts of tokens, on which the reported
// tokens per second depend.
func TestOurs(t *testing.T) {
	model := filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied")
	jobs := []Job{
		{Name: "prefill", Kind: Prefill, Batch: 3, Tokens: 20},
		{Name: "decode", Kind: Decode, Batch: 2, Context: 9, New: 6},
		{Name: "turns", Kind: Turns, Batch: 2, Turns: 3, Prompt: 10, New: 4, Observation: 5},
		{Name: "train", Kind: Train, Batch: 2, Tokens: 12},
		{Name: "prefill again", Kind: Prefill, Batch: 3, Tokens: 20},
		{Name: "ragged", Kind: Prefill, Batch: 3, Tokens: 20, Ragged: true},
		{Name: "uneven", Kind: Turns, Batch: 2, Turns: 2, Fewest: 1, Prompt: 10, New: 4, Observation: 5},
	}
	o, err := OpenOurs(t.Context(), model, "cpu", torch.Float32, jobs)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	// For each job: the sampled tokens, and the tokens that the model processes (all tokens except the last of each session).
	want := map[string][2]int64{"prefill": {3, 60}, "decode": {14, 2 * (9 + 6)}, "turns": {24, 2 * (10 + 2*5 + 3*4 - 1)}, "train": {0, 0}, "prefill again": {3, 60}, "ragged": {3, 54}, "uneven": {12, 10 + 3 + 10 + 5 + 7}}
	for _, j := range jobs {
		before := o.sampler.Scheduler.Stats()
		took, err := o.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if took <= 0 {
			t.Errorf("%s took %v, want more than 0", j.Name, took)
		}
		after := o.sampler.Scheduler.Stats()
		got := [2]int64{
			after.SampledTokens - before.SampledTokens,
			after.PrefillTokens + after.DecodeTokens - before.PrefillTokens - before.DecodeTokens,
		}
		if got != want[j.Name] {
			t.Errorf("%s sampled %d tokens and ran %d, want %v", j.Name, got[0], got[1], want[j.Name])
		}
		if after.Parked > 0 {
			t.Errorf("%s: %d sessions lost their KV cache, want 0", j.Name, after.Parked)
		}
	}
	if n := o.adamw.Steps(); n != 1 {
		t.Errorf("%d optimiser steps, want 1", n)
	}
	if _, err := o.Run(t.Context(), Job{Name: "odd", Kind: "sing"}); err == nil {
		t.Error("no error for an unknown kind of job")
	}
}

// TestJob runs jobs of the command line on the device of the tests. The scheduler refuses a negative temperature, so it receives that of the job.
func TestJob(t *testing.T) {
	for job, refusal := range map[string]string{
		`{"name":"ragged","kind":"train","batch":5,"tokens":24,"ragged":true}`:              "",
		`{"name":"sampled","kind":"decode","batch":3,"context":5,"new":4,"temperature":1}`:  "",
		`{"name":"sampled","kind":"decode","batch":3,"context":5,"new":4,"temperature":-1}`: "temperature is -1",
	} {
		var out strings.Builder
		o, err := parse([]string{"job", "--json", "--rounds", "1", "--dtype", "bfloat16", "--job", job,
			"--model", filepath.Join("..", "agent", "llm", "model", "testdata", "llama-tied")}, t.Output())
		if err == nil {
			err = measure(t.Context(), o, &out, t.Output())
		}
		if refusal != "" {
			if err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s: error %v, want %q", job, err, refusal)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Fatal(err)
		}
		if got.Memory == nil || got.Memory.KVCache <= 0 || got.Memory.Process <= got.Memory.KVCache || len(got.Speed) != 1 || got.Speed[0].Ours <= 0 {
			t.Errorf("%s: got %s", job, out.String())
		}
	}
}

func TestLatency(t *testing.T) {
	o := LatencyOptions{Episodes: 4, Turns: 3, Pause: time.Millisecond, Rounds: 1}
	l, err := measureLatency(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if l.Turns != 12 || len(l.BaseRuns) != 1 || len(l.SlowRuns) != 1 {
		t.Errorf("got %+v, want 12 turns, one run without a pause and one with a pause", l)
	}
	for _, r := range append(l.BaseRuns, l.SlowRuns...) {
		if r.Steps < 3 || r.Busy <= 0 || r.Busy > r.Seconds {
			t.Errorf("got the run %+v, want at least 3 steps and an engine that is busy for part of the time", r)
		}
	}
}

func TestLatencyJudged(t *testing.T) {
	o := LatencyOptions{Turns: 10, Pause: 100 * time.Millisecond}
	for slow, hidden := range map[float64]bool{3.2: true, 3.4: false} {
		l := Latency{BaseRuns: []LatencyRun{{Seconds: 5}, {Seconds: 2}}, SlowRuns: []LatencyRun{{Seconds: slow}, {Seconds: 9}}}
		l.judge(o)
		if l.Base != 2 || l.Slow != slow || l.Hidden != hidden {
			t.Errorf("slow run of %v s: got %+v, want hidden %t", slow, l, hidden)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{"speeed": "speeed", "--quick latency": "--quick", "--quick --full": "--quick", "--update": "--update", "--rows [": "rows", "grpo --peers llama --peer python": "--peers is an option", "--peers llama": "needs --peer", "--quick --peers llama": "--peers", "speed now --json": `"now"`, "--rounds 0": "--rounds", "shared --busy 0": "--busy",
		"job": "--job", `job --job {"kind":"decode","rows":3}`: "rows", "job --dtype float8": "float8",
		"start --dtype float32": "speed, grpo, job", "int8 --dtype float32": "--dtype", "grpo --rows decode": "--rows", "--device cuda": "--device", "latency --job {}": "--job", "speed --busy 3": "--busy",
		"latency --threads 4": "--threads", "shards --rounds 2": "--rounds", "shared --full": "--full"} {
		if _, err := parse(strings.Fields(args), t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	for args, want := range map[string]string{
		"": "speed latency", "--full": "speed grpo start latency", "--quick --update": "speed", "--full grpo": "grpo", "--quick speed": "speed",
		"--rows decode --dtype float32": "speed latency", "--full start --rounds 1": "start",
	} {
		o, err := parse(strings.Fields(args), t.Output())
		var got []string
		for _, name := range []string{"speed", "grpo", "start", "latency"} {
			if o.selects(name) {
				got = append(got, name)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q selects %v (error %v), want %s", args, got, err, want)
		}
	}
	for args, want := range map[string]int{"": 3, "--quick": 2, "--quick --rounds 3": 3} {
		if o, err := parse(strings.Fields(args), t.Output()); err != nil || o.rounds != want {
			t.Errorf("%q: %d rounds, error %v; want %d", args, o.rounds, err, want)
		}
	}
	for args, want := range map[string]int{"grpo": 3, "--full grpo": 1, "--full": 1, "--full grpo --rounds 2": 2} {
		if o, err := parse(strings.Fields(args), t.Output()); err != nil || o.turns() != want {
			t.Errorf("%q: %d turns of GRPO steps, error %v; want %d", args, o.turns(), err, want)
		}
	}
	if o, err := parse([]string{"--rounds", "2", "latency", "--json"}, t.Output()); err != nil || o.measurement != "latency" || o.rounds != 2 || !o.json {
		t.Errorf("options before and after the name: got %+v, %v", o, err)
	}
}
