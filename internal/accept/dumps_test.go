package main

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
)

func TestCountFaults(t *testing.T) {
	at := func(uid string, sample int) *data.Episode { return &data.Episode{UID: uid, Sample: sample} }
	if missing, twice := countFaults([]*data.Episode{at("a", 0), at("a", 1), at("b", 0), at("a", 1)}, 4); missing != 1 || twice != 1 {
		t.Errorf("got %d missing and %d repeated episodes, want 1 and 1", missing, twice)
	}
}

func TestChangeReply(t *testing.T) {
	e := &data.Episode{Exchanges: []data.Exchange{{Reply: "goal"}, {Reply: `{"observation":"the goal, a goal"}`}}}
	if err := changeReply(e); err != nil || e.Exchanges[1].Reply != `{"observation":"the goal, a coal"}` || e.Exchanges[0].Reply != "goal" {
		t.Errorf("got %+v (error %v), want \"coal\" at the end of the last reply", e.Exchanges, err)
	}
	for _, e := range []*data.Episode{{}, {Exchanges: []data.Exchange{{Reply: "x"}}}} {
		if changeReply(e) == nil {
			t.Errorf("no error for %+v, which has no goal to change", e)
		}
	}
}

func TestSoundDumps(t *testing.T) {
	good := DumpRun{Name: "d", Episodes: 4, KilledAt: []int{1, 2}, Replay: verdicts{Replayed: 4}, Found: true}
	if !good.sound() {
		t.Error("a run without faults is reported as faulty")
	}
	for name, spoil := range map[string]func(*DumpRun){
		"missing": func(r *DumpRun) { r.Missing = 1 }, "twice": func(r *DumpRun) { r.Twice = 1 },
		"differs": func(r *DumpRun) { r.Replay.Differ = 1 }, "near tie": func(r *DumpRun) { r.Replay.NearTies = 1 },
		"not all replayed": func(r *DumpRun) { r.Replay.Replayed = 3 }, "not found": func(r *DumpRun) { r.Found = false },
		"killed once": func(r *DumpRun) { r.KilledAt = r.KilledAt[:1] },
	} {
		r := good
		if spoil(&r); r.sound() {
			t.Errorf("%s: the run is reported as sound", name)
		}
	}
	var b strings.Builder
	d := Dumps{Model: "m", Trials: []DumpRun{good}}
	if err := d.print(&b); err != nil || !strings.Contains(b.String(), "[1 2]") || !strings.Contains(b.String(), "NOT kept") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
