package track

import "time"

// Stat is the mean, the largest and the smallest of some values.
type Stat struct {
	N              int
	Mean, Max, Min float64
}

// StatOf computes the Stat of values. A NaN among them makes all three NaN, so
// that it cannot hide.
func StatOf[T ~float32 | ~float64 | ~int | ~int32 | ~int64](values []T) Stat {
	s := Stat{N: len(values)}
	sum := 0.0
	for i, v := range values {
		x := float64(v)
		sum += x
		if i == 0 {
			s.Max, s.Min = x, x
		}
		s.Max, s.Min = max(s.Max, x), min(s.Min, x) // the built-ins keep NaN
	}
	if s.N > 0 {
		s.Mean = sum / float64(s.N)
	}
	return s
}

// Put writes prefix/mean, prefix/max and prefix/min; nothing where there were
// no values, since no number would be true.
func (s Stat) Put(m Metrics, prefix string) {
	if s.N == 0 {
		return
	}
	m[prefix+"/mean"], m[prefix+"/max"], m[prefix+"/min"] = s.Mean, s.Max, s.Min
}

// Timer measures the phases of a step as timing_s/<phase>.
type Timer struct {
	now     func() time.Time
	seconds map[string]float64
}

// NewTimer returns a Timer; now is time.Now outside tests.
func NewTimer(now func() time.Time) *Timer {
	return &Timer{now: now, seconds: map[string]float64{}}
}

// Start begins a phase and returns the function that ends it. The times of a
// phase that runs several times in a step add up.
func (t *Timer) Start(phase string) (stop func()) {
	began := t.now()
	return func() { t.seconds[phase] += t.now().Sub(began).Seconds() }
}

// Put writes the seconds of every phase and starts the next step from zero.
func (t *Timer) Put(m Metrics) {
	for phase, s := range t.seconds {
		m[TimingSeconds+"/"+phase] = s
	}
	clear(t.seconds)
}
