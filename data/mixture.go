package data

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Mixture draws tasks from several sources. A source is drawn by weight, and each
// of its tasks comes once in every epoch of the source (Order). The source of a
// draw depends only on the seed and the number of the draw, so the few numbers of a
// MixtureState suffice to resume exactly. With one source, a Mixture has the order
// of its Order.
type Mixture struct {
	shares []Share
	orders []*Order // nil for a weight of 0
	total  float64  // sum of the weights
	seed   uint64
	draws  int
}

// Share is one source of a Mixture.
type Share struct {
	Name   string
	Tasks  int
	Weight float64 // relative to the other sources; 0: never drawn
}

// Pick is one draw: the number of a source and the number of a task in this source.
type Pick struct{ Source, Task int }

// MixtureState is the position of a Mixture, as stored in checkpoints.
type MixtureState struct {
	Draws  int          `json:"draws"`
	Orders []OrderState `json:"orders"` // by source
}

// NewMixture returns a mixture at its beginning.
func NewMixture(shares []Share, shuffle bool, seed uint64) (*Mixture, error) {
	m := &Mixture{shares: shares, orders: make([]*Order, len(shares)), seed: seed}
	for i, s := range shares {
		switch {
		case !(s.Weight >= 0) || math.IsInf(s.Weight, 0):
			return nil, fmt.Errorf("%s: weight %g, want 0 or more", s.Name, s.Weight)
		case s.Weight == 0:
			continue
		}
		var err error
		// Sources of equal size must not have the same order. The first source uses
		// the seed itself.
		if m.orders[i], err = NewOrder(s.Tasks, shuffle, seed+uint64(i)); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		m.total += s.Weight
	}
	if m.total == 0 || math.IsInf(m.total, 0) {
		return nil, errors.New("no source has a positive finite weight")
	}
	return m, nil
}

// Next draws k times.
func (m *Mixture) Next(k int) []Pick {
	picks := make([]Pick, k)
	for i := range picks {
		s := m.source()
		m.draws++
		picks[i] = Pick{Source: s, Task: m.orders[s].Next(1)[0]}
	}
	return picks
}

// source returns the source of the next draw.
func (m *Mixture) source() int {
	const stream = 0x6d697874757265 // makes these random numbers differ from those of Order with the same seed
	u := rand.NewPCG(m.seed^stream, uint64(m.draws)).Uint64()
	at := float64(u>>11) / (1 << 53) * m.total // in [0, total)
	last := 0
	for i, s := range m.shares {
		if s.Weight == 0 {
			continue
		}
		if last = i; at < s.Weight {
			break
		}
		at -= s.Weight
	}
	return last
}

// State returns the position of the mixture.
func (m *Mixture) State() MixtureState {
	st := MixtureState{Draws: m.draws, Orders: make([]OrderState, len(m.orders))}
	for i, o := range m.orders {
		if o != nil {
			st.Orders[i] = o.State()
		}
	}
	return st
}

// Restore resumes from a state. The sources and their numbers of tasks must not
// have changed since State returned it.
func (m *Mixture) Restore(st MixtureState) error {
	if len(st.Orders) != len(m.orders) || st.Draws < 0 {
		return fmt.Errorf("the run was drawing from %d environments, now there are %d: resume with the same ones", len(st.Orders), len(m.orders))
	}
	for i, o := range m.orders {
		if o == nil {
			continue
		}
		if err := o.Restore(st.Orders[i]); err != nil {
			return fmt.Errorf("%s: %w", m.shares[i].Name, err)
		}
	}
	m.draws = st.Draws
	return nil
}
