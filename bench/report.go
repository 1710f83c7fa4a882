package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report has the results of all measurements. --json prints it.
type report struct {
	Threads  int               `json:"threads"`
	Rounds   int               `json:"rounds"`
	CPU      string            `json:"cpu"`                // see torch.InstructionSet
	Versions map[string]string `json:"versions,omitempty"` // of the peers' packages
	Speed    []Comparison      `json:"speed,omitempty"`
	Verdicts []Verdict         `json:"verdicts,omitempty"` // of --quick
	GRPO     *GRPO             `json:"grpo,omitempty"`
	Start    *Start            `json:"start,omitempty"`
	Latency  *Latency          `json:"latency,omitempty"`
	Memory   *Memory           `json:"memory,omitempty"` // of a job
	Shards   []ShardMemory     `json:"shards,omitempty"`
	Shared   *Shared           `json:"shared,omitempty"`
}

// hidden reports whether generation hides the latency of the environment.
func (r *report) hidden() bool { return r.Latency == nil || r.Latency.Hidden }

// kept reports whether no row has a problem.
func (r *report) kept() bool {
	return !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Problem != "" })
}

// print writes the report as text.
func (r *report) print(out io.Writer) error {
	var b strings.Builder
	if len(r.Speed) > 0 {
		if err := r.printSpeed(&b); err != nil {
			return err
		}
	}
	if len(r.Verdicts) > 0 {
		if err := printVerdicts(&b, r.Verdicts); err != nil {
			return err
		}
	}
	if r.GRPO != nil {
		if err := r.GRPO.print(&b, r.Threads); err != nil {
			return err
		}
	}
	if r.Start != nil {
		b.WriteString(r.Start.print())
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
	var against []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		against = append(against, name+" "+r.Versions[name])
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(b, "KV cache %d MB, process %d MB, GPU %d MB\n", m.KVCache/1e6, m.Process/1e6, m.GPU/1e6)
	}
	fmt.Fprintf(b, "%d threads, %s, median of %d runs", r.Threads, r.CPU, r.Rounds)
	if len(against) > 0 {
		fmt.Fprintf(b, ", against %s; in parentheses ours / theirs", strings.Join(against, ", "))
	}
	b.WriteString("\n")
	for _, dt := range types {
		var flops, bytes []float64
		for _, c := range r.Speed {
			if c.Machine != nil && c.Machine.dtype == dt {
				flops, bytes = append(flops, c.Machine.gflops...), append(bytes, c.Machine.bandwidth...)
			}
		}
		if len(flops) > 0 {
			fmt.Fprintf(b, "the machine in %v: %.0f GFLOP/s (%.0f-%.0f) in matrix products, %.1f GB/s (%.1f-%.1f) in reading memory, median of all rows\n",
				dt, median(flops), slices.Min(flops), slices.Max(flops), median(bytes), slices.Min(bytes), slices.Max(bytes))
		}
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join([]string{"", "type", "openmanus", "bound", "share", "peers"}, "\t"))
	for _, c := range r.Speed {
		fmt.Fprintln(w, strings.Join(c.row(), "\t"))
	}
	return w.Flush()
}

func printVerdicts(b *strings.Builder, list []Verdict) error {
	b.WriteString("\nshares of the bound against those stored\n")
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "row\tmeasured\tstored\tallowed from\t")
	for _, v := range list {
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%s\n", v.Row, v.Share, v.Stored, v.Stored*(1-v.Tolerance), v.Problem)
	}
	return w.Flush()
}
