package main

import (
	"slices"
	"strings"
	"testing"
)

func TestValidations(t *testing.T) {
	got, err := validations(strings.NewReader(`{"step":0,"sft/step":1}
{"step":0,"val/maze/success_rate":0.25}
{"step":1,"episode/success_rate":0.5}
{"step":10,"val/maze/success_rate":0.75}
{"step":20,"val/maze/success_rate":1}
`))
	if want := []validated{{0, 0.25}, {10, 0.75}, {20, 1}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got validations %v (error %v), want %v", got, err, want)
	}
	for _, text := range []string{"", `{"val/maze/success_rate":0.25}`, "{"} {
		if _, err := validations(strings.NewReader(text)); err == nil {
			t.Errorf("no error for the metrics %q", text)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		runs   []Run
		median float64
		learns bool
	}{
		{"all well", []Run{{Before: 0.3, After: 1}, {Before: 0.35, After: 0.85}, {After: 0.95}}, 0.95, true},
		{"an even number", []Run{{After: 0.9}, {After: 1}}, 0.95, true},
		{"too good before training", []Run{{Before: 0.36, After: 1}}, 1, false},
		{"one below the bound", []Run{{After: 1}, {After: 0.84}, {After: 1}}, 1, false},
		{"median below the bound", []Run{{After: 0.9}, {After: 0.94}, {After: 1}}, 0.94, false},
	} {
		l := Learning{Runs: c.runs}
		if l.judge(); l.Median != c.median || l.Learns != c.learns {
			t.Errorf("%s: got median %g and learns %t, want %g and %t", c.name, l.Median, l.Learns, c.median, c.learns)
		}
	}
}
