package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Side runs jobs and reports the duration of each.
type Side interface {
	Run(ctx context.Context, j Job) (time.Duration, error)
}

// Comparison is the result of one job on all sides. Rates are units per second of the median run.
type Comparison struct {
	Job         Job        `json:"job"`
	Type        string     `json:"type,omitempty"`
	Unit        string     `json:"unit"`
	Ours        float64    `json:"ours"`
	Bound       float64    `json:"bound,omitempty"` // rate that the machine allows
	Share       float64    `json:"share,omitempty"` // ours / bound
	Machine     *Machine   `json:"machine,omitempty"`
	OursSeconds []float64  `json:"ours_seconds"` // duration of every run that counts
	Peers       []PeerRate `json:"peers,omitempty"`
}

// PeerRate is the result of a job on a peer.
type PeerRate struct {
	Name    string    `json:"name"`
	Rate    float64   `json:"rate"`
	Ratio   float64   `json:"ratio"` // ours / peer; above 1, openmanus is faster
	Seconds []float64 `json:"seconds"`
}

// Rival is a peer in a comparison.
type Rival struct {
	Form Form
	Side Side
}

// longRun is the time from which the first run counts: the warm-up is a small part of it, and another run is expensive. With --quick it is
// longQuickRun.
const (
	longRun      = 20 * time.Second
	longQuickRun = 2 * time.Second
)

// compare runs a job on all sides, once to warm up and then in the given number of rounds. The sides alternate, so that other load on the
// machine affects all. The first run is no warm-up, but counts, if it takes at least long. probe measures the machine before every round;
// nil: no probe.
func compare(ctx context.Context, j Job, ours Side, rivals []Rival, rounds int, long time.Duration, probe func() error) (Comparison, error) {
	n, unit := j.Units()
	c := Comparison{Job: j, Unit: unit}
	sides := append([]Rival{{Side: ours}}, rivals...)
	seconds := make([][]float64, len(sides))
	unfinished := func(runs []float64) bool { return len(runs) < rounds }
	for round := range rounds + 1 {
		if !slices.ContainsFunc(seconds, unfinished) {
			break
		}
		if probe != nil {
			if err := probe(); err != nil {
				return c, err
			}
		}
		for i, s := range sides {
			if !unfinished(seconds[i]) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return c, err
			}
			formed := j
			formed.Form = s.Form.Form
			took, err := s.Side.Run(ctx, formed)
			if err != nil {
				return c, err
			}
			if round > 0 || took >= long {
				seconds[i] = append(seconds[i], took.Seconds())
			}
		}
	}
	c.OursSeconds = seconds[0]
	c.Ours = float64(n) / median(c.OursSeconds)
	for i, r := range rivals {
		p := PeerRate{Name: r.Form.String(), Seconds: seconds[i+1]}
		p.Rate = float64(n) / median(p.Seconds)
		p.Ratio = c.Ours / p.Rate
		c.Peers = append(c.Peers, p)
	}
	return c, nil
}

// row returns the cells of a table row.
func (c Comparison) row() []string {
	cells := []string{c.Job.Name, c.Type, fmt.Sprintf("%.4g %s", c.Ours, c.Unit), "", ""}
	if c.Bound > 0 {
		cells[3], cells[4] = fmt.Sprintf("%.4g", c.Bound), fmt.Sprintf("%.0f %%", 100*c.Share)
	}
	var peers []string
	for _, p := range c.Peers {
		peers = append(peers, fmt.Sprintf("%s %.4g (%.2f x)", p.Name, p.Rate, p.Ratio))
	}
	return append(cells, strings.Join(peers, ", "))
}
