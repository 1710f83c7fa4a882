package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report has the results of all measurements. --json prints it.
type report struct {
	Threads int           `json:"threads"`
	Rounds  int           `json:"rounds"`
	Peer    *PeerVersions `json:"peer,omitempty"`
	Speed   []Comparison  `json:"speed,omitempty"`
	GRPO    *GRPO         `json:"grpo,omitempty"`
	Latency *Latency      `json:"latency,omitempty"`
	Memory  *Memory       `json:"memory,omitempty"` // of a job
	Shards  []ShardMemory `json:"shards,omitempty"`
	Shared  *Shared       `json:"shared,omitempty"`
}

// kept reports whether generation hides the latency of the environment. The other
// measurements have no bounds.
func (r *report) kept() bool { return r.Latency == nil || r.Latency.Hidden }

// print writes the report as text.
func (r *report) print(out io.Writer) error {
	var b strings.Builder
	if len(r.Speed) > 0 {
		if err := r.printSpeed(&b); err != nil {
			return err
		}
	}
	if r.GRPO != nil {
		if err := r.GRPO.print(&b, r.Threads); err != nil {
			return err
		}
	}
	if len(r.Shards) > 0 {
		if err := printShards(&b, r.Shards); err != nil {
			return err
		}
	}
	if r.Shared != nil {
		if err := r.Shared.print(&b, r.Threads, r.Rounds); err != nil {
			return err
		}
	}
	if l := r.Latency; l != nil {
		word := "kept"
		if !l.Hidden {
			word = "NOT kept"
		}
		fmt.Fprintf(&b, "\nlatency: %d maze episodes at once, %d turns in all, %.0f ms before every answer\n", l.Episodes, l.Turns, 1000*l.Pause)
		fmt.Fprintf(&b, "  without the pause %.2f s, with it %.2f s, at most %.2f s allowed: %s\n", l.Base, l.Slow, l.Bound, word)
	}
	_, err := io.WriteString(out, strings.TrimPrefix(b.String(), "\n"))
	return err
}

func (r *report) printSpeed(b *strings.Builder) error {
	peer := ""
	if r.Peer != nil {
		peer = fmt.Sprintf(", against transformers %s on torch %s", r.Peer.Transformers, r.Peer.Torch)
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(b, "KV cache %d MB, process %d MB, GPU %d MB\n", m.KVCache/1e6, m.Process/1e6, m.GPU/1e6)
	} else {
		b.WriteString("float32, ")
	}
	fmt.Fprintf(b, "%d threads, fastest of %d runs%s\n\n", r.Threads, r.Rounds, peer)
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	head := []string{"", "openmanus", "transformers", "ours / theirs"}
	if r.Peer == nil {
		head = head[:2]
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, c := range r.Speed {
		fmt.Fprintln(w, strings.Join(c.row()[:len(head)], "\t"))
	}
	return w.Flush()
}
