package pace

import (
	"math"
	"time"
)

// Estimate predicts how long a piece of work takes, from its own pace and from the duration of the previous work of the same
// kind. With f the share that is done after the time t, and Prior that duration,
//
//	whole = (1-w)·Prior + w·t/f
//
// where w grows from 0 at f = earlyShare to 1 at f = 1/2: the first episodes of a step end much earlier than the rest. Without a
// previous duration, w is 1, and nothing is predicted before earlyShare is done. The prediction is smoothed over smoothFor.
type Estimate struct {
	Began time.Time
	Prior time.Duration // 0: none
	From  float64       // share that was done when the work began
	whole time.Duration // smoothed prediction for the work from began on; 0: none
	at    time.Time     // when whole was set
}

const (
	earlyShare = 0.1
	smoothFor  = 10 * time.Second
)

// Left returns the predicted remaining time when the given share of the work is done.
func (e *Estimate) Left(now time.Time, share float64) (left time.Duration, ok bool) {
	took, f := now.Sub(e.Began), 0.0
	if e.From < 1 {
		f = (share - e.From) / (1 - e.From)
	}
	var whole time.Duration
	switch {
	case f >= 1:
		return 0, false
	case e.Prior > 0 && f <= earlyShare:
		whole = e.Prior
	case e.Prior > 0:
		w := min(1, (f-earlyShare)/(0.5-earlyShare))
		whole = time.Duration((1-w)*float64(e.Prior) + w*float64(took)/f)
	case f >= earlyShare:
		whole = time.Duration(float64(took) / f)
	default:
		return 0, false
	}
	smooth := whole
	if e.whole > 0 {
		keep := math.Exp(-float64(now.Sub(e.at)) / float64(smoothFor))
		smooth = time.Duration(keep*float64(e.whole) + (1-keep)*float64(whole))
	}
	e.whole, e.at = smooth, now
	if smooth <= took { // the smoothed prediction lags behind
		smooth = whole
	}
	return smooth - took, smooth > took
}
