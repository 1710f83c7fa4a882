package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is everything that was measured; --json prints it as it is.
type report struct {
	Threads int           `json:"threads"`
	Rounds  int           `json:"rounds"`
	Peer    *PeerVersions `json:"peer,omitempty"`
	Speed   []Comparison  `json:"speed,omitempty"`
	GRPO    *GRPO         `json:"grpo,omitempty"`
	Latency *Latency      `json:"latency,omitempty"`
	Memory  *Memory       `json:"memory,omitempty"`

	Learning *Learning `json:"learning,omitempty"`
	Methods  *Methods  `json:"estimators,omitempty"`
	Entries  *Entries  `json:"entries,omitempty"`
	Faults   *Faults   `json:"faults,omitempty"`
	Crowd    *Crowd    `json:"crowd,omitempty"`
	Dumps    *Dumps    `json:"dumps,omitempty"`
	AgentGym *AgentGym `json:"agentgym,omitempty"`
}

// kept tells whether the promises that were measured are kept. Speed promises
// nothing: its ratios are what they are.
func (r *report) kept() bool {
	return (r.Latency == nil || r.Latency.Hidden) && (r.Memory == nil || r.Memory.Steady) &&
		(r.Learning == nil || r.Learning.Learns) && (r.Methods == nil || r.Methods.Learns) &&
		(r.Entries == nil || r.Entries.Trains) && (r.Faults == nil || r.Faults.kept()) &&
		(r.Crowd == nil || r.Crowd.Cheap && r.Crowd.Clean) && (r.Dumps == nil || r.Dumps.Sound) &&
		(r.AgentGym == nil || r.AgentGym.kept())
}

// print writes the report for people.
func (r *report) print(out io.Writer) error {
	var b strings.Builder
	if len(r.Speed) > 0 {
		peer := ""
		if r.Peer != nil {
			peer = fmt.Sprintf(", against transformers %s on torch %s", r.Peer.Transformers, r.Peer.Torch)
		}
		fmt.Fprintf(&b, "float32, %d threads, fastest of %d runs%s\n\n", r.Threads, r.Rounds, peer)
		w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		head := []string{"", "openmanus", "transformers", "ours / theirs"}
		if r.Peer == nil {
			head = head[:2]
		}
		fmt.Fprintln(w, strings.Join(head, "\t"))
		for _, c := range r.Speed {
			fmt.Fprintln(w, strings.Join(c.row()[:len(head)], "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if r.GRPO != nil {
		if err := r.GRPO.print(&b, r.Threads); err != nil {
			return err
		}
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "\nlatency: %d maze episodes at once, %d turns in all, %.0f ms before every answer\n", l.Episodes, l.Turns, 1000*l.Pause)
		fmt.Fprintf(&b, "  without the pause %.2f s, with it %.2f s, at most %.2f s allowed: %s\n", l.Base, l.Slow, l.Bound, verdict(l.Hidden))
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(&b, "\nmemory: %.1f MB at step %d, %.1f MB at step %d: %.3f times, at most %.3f allowed: %s\n",
			m.Before/1e6, m.From, m.After/1e6, m.To, m.Ratio, m.Limit, verdict(m.Steady))
	}
	if r.Learning != nil {
		r.Learning.print(&b)
	}
	if r.Methods != nil {
		if err := r.Methods.print(&b); err != nil {
			return err
		}
	}
	if r.Entries != nil {
		if err := r.Entries.print(&b); err != nil {
			return err
		}
	}
	if r.Faults != nil {
		r.Faults.print(&b)
	}
	if r.Crowd != nil {
		r.Crowd.print(&b)
	}
	if r.Dumps != nil {
		if err := r.Dumps.print(&b); err != nil {
			return err
		}
	}
	if r.AgentGym != nil {
		if err := r.AgentGym.print(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, strings.TrimPrefix(b.String(), "\n"))
	return err
}

func verdict(ok bool) string {
	if ok {
		return "kept"
	}
	return "NOT kept"
}
