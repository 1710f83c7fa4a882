package pace

import (
	"testing"
	"time"
)

// TestEstimate plays a step of groups, of which the easy episodes end early and the last ones late, and checks that the predicted
// end never moves by more than a third of the whole from one second to the next, and that it is close in the last 40 percent.
func TestEstimate(t *testing.T) {
	const total, whole = 256, 240 * time.Second
	for _, prior := range []time.Duration{0, 200 * time.Second, 500 * time.Second} {
		began := time.Unix(1e9, 0)
		e := Estimate{Began: began, Prior: prior}
		var end time.Duration // predicted
		for at := time.Second; at < whole; at += time.Second {
			wave := at / (30 * time.Second) // 32 episodes end in the last third of each wave
			done := 32 * int(wave)
			if in := at - wave*30*time.Second; in > 20*time.Second {
				done += int(32 * (in - 20*time.Second) / (10 * time.Second))
			}
			left, ok := e.Left(began.Add(at), float64(done)/total)
			if !ok {
				if end != 0 {
					t.Errorf("prior %v: no prediction after %v, after an earlier one", prior, at)
				}
				continue
			}
			if now := at + left; end != 0 && max(now-end, end-now) > whole/3 {
				t.Errorf("prior %v: after %v the predicted end moves from %v to %v", prior, at, end, now)
			}
			if end = at + left; at > whole*6/10 && max(end-whole, whole-end) > whole/4 {
				t.Errorf("prior %v: after %v the predicted end is %v, want about %v", prior, at, end, whole)
			}
		}
		if end == 0 {
			t.Errorf("prior %v: no prediction", prior)
		}
	}
}
