package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Side runs jobs and reports the duration of each.
type Side interface {
	Run(ctx context.Context, j Job) (time.Duration, error)
}

// Comparison is the result of one job on both sides.
type Comparison struct {
	Job         Job       `json:"job"`
	Unit        string    `json:"unit"`
	Ours        float64   `json:"ours"` // units per second of the fastest run
	Peer        float64   `json:"peer,omitempty"`
	Ratio       float64   `json:"ratio,omitempty"` // ours / peer; above 1, openmanus is faster
	OursSeconds []float64 `json:"ours_seconds"`    // duration of every run
	PeerSeconds []float64 `json:"peer_seconds,omitempty"`
}

// compare runs a job on both sides, once to warm up and then in the given number of
// rounds. The sides alternate, so that other load on the machine affects both. The fastest
// run counts, since other load only adds time. Without a peer it measures our side only.
func compare(ctx context.Context, j Job, ours, peer Side, rounds int) (Comparison, error) {
	n, unit := j.Units()
	c := Comparison{Job: j, Unit: unit}
	for round := range rounds + 1 {
		for _, s := range []struct {
			side    Side
			seconds *[]float64
		}{{ours, &c.OursSeconds}, {peer, &c.PeerSeconds}} {
			if s.side == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return c, err
			}
			took, err := s.side.Run(ctx, j)
			if err != nil {
				return c, err
			}
			if round > 0 {
				*s.seconds = append(*s.seconds, took.Seconds())
			}
		}
	}
	c.Ours = float64(n) / slices.Min(c.OursSeconds)
	if peer != nil {
		c.Peer = float64(n) / slices.Min(c.PeerSeconds)
		c.Ratio = c.Ours / c.Peer
	}
	return c, nil
}

// row returns the cells of a table row.
func (c Comparison) row() []string {
	ours := fmt.Sprintf("%.1f %s", c.Ours, c.Unit)
	if c.Peer == 0 {
		return []string{c.Job.Name, ours, "", ""}
	}
	return []string{c.Job.Name, ours, fmt.Sprintf("%.1f %s", c.Peer, c.Unit), fmt.Sprintf("%.2f", c.Ratio)}
}
