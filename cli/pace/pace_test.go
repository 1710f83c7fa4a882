package pace

import (
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	var p Steps
	at := time.Unix(1e9, 0)
	if _, ok := p.Left(at); ok {
		t.Error("a remaining time before the first step")
	}
	p.End(at, 7, 27) // step 7 began in an earlier process
	if _, ok := p.Left(at); ok {
		t.Error("a remaining time after a step of an earlier process")
	}
	for step := 8; step <= 27; step++ {
		p.Begin(at, step, 29)
		p.Begin(at.Add(time.Second), step, 29)   // another phase
		p.Begin(at.Add(time.Second), step-1, 29) // a save of the previous step
		at = at.Add(time.Duration(step-7) * time.Second)
		p.End(at, step, 29)
	}
	if left, _ := p.Left(at); left != 33*time.Second { // mean of the last eight steps (13 to 20 s), times 2
		t.Errorf("got %v, want 33s", left)
	}
	if left, _ := p.Left(at.Add(time.Hour)); left != 16500*time.Millisecond {
		t.Errorf("one hour into a step: got %v, want 16.5s, the time of one more step", left)
	}
}
