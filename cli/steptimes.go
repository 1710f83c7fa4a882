package cli

import "time"

// stepTimes says how long the steps to come will take, by those before.
type stepTimes struct {
	began time.Time // of the step in progress, or of the next
	step  int       // in progress; 0: none
	took  []time.Duration
}

// paceSteps is how many steps the pace is the mean of: episodes become shorter
// or longer while an agent learns.
const paceSteps = 8

// begin says that a phase of a step has begun. The first one begins the step.
func (p *stepTimes) begin(now time.Time, step int) {
	if p.step != step {
		p.step = step
		if p.began.IsZero() || len(p.took) == 0 {
			p.began = now
		}
	}
}

// end says that a step is over. What comes before the next, such as a
// checkpoint, is part of that.
func (p *stepTimes) end(now time.Time, step int) {
	if p.step != step { // it was played by a process before this one
		return
	}
	p.took = append(p.took, now.Sub(p.began))
	p.took = p.took[max(0, len(p.took)-paceSteps):]
	p.began, p.step = now, 0
}

// left is how long so many steps take, less what was spent on the first of
// them; ok is false where no step is known yet.
func (p *stepTimes) left(now time.Time, steps int) (left time.Duration, ok bool) {
	if len(p.took) == 0 {
		return 0, false
	}
	sum := time.Duration(0)
	for _, d := range p.took {
		sum += d
	}
	mean := sum / time.Duration(len(p.took))
	return max(0, time.Duration(steps)*mean-min(mean, now.Sub(p.began))), true
}
