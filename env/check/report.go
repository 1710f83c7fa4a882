package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Status is the result of a check.
type Status string

// The statuses.
const (
	Pass Status = "PASS"
	Skip Status = "SKIP" // not tested
	Warn Status = "WARN" // a deviation that AgentGym's servers also have or that clients tolerate
	Fail Status = "FAIL" // a deviation that breaks clients
)

var severity = map[Status]int{Pass: 0, Skip: 1, Warn: 2, Fail: 3}

// Result is one line of a report.
type Result struct {
	Check    string `json:"check"`
	Status   Status `json:"status"`
	Protocol string `json:"protocol"` // section of the AgentGym protocol, such as "AgentGym protocol 5.5"
	Expected string `json:"expected"`
	Came     string `json:"came"`
	Reason   string `json:"reason,omitempty"` // reason of a warning or a skip
}

// Latency summarizes the calls of one kind, in milliseconds.
type Latency struct {
	Calls int     `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// Report is the outcome of a Run.
type Report struct {
	URL         string             `json:"url"`
	Env         string             `json:"env"`
	Results     []Result           `json:"results"`
	Latency     map[string]Latency `json:"latency"` // by the kind of call
	Requests    int                `json:"requests"`
	Seconds     float64            `json:"seconds"`
	Left        int                `json:"left,omitempty"`        // instances that could not be closed
	Unreachable bool               `json:"unreachable,omitempty"` // the server does not answer
}

// Count returns the number of results with a status.
func (r *Report) Count(s Status) int {
	n := 0
	for _, x := range r.Results {
		if x.Status == s {
			n++
		}
	}
	return n
}

// Print writes the report as text: the table, the details of every result other
// than PASS, and the latencies.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n\n", r.Env, r.URL)
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "RESULT\tCHECK\tPROTOCOL\tEXPECTED\tRECEIVED")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", x.Status, x.Check, strings.TrimPrefix(x.Protocol, protocol), short(x.Expected, 56), short(x.Came, 56))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range r.Results {
		if x.Status == Pass {
			continue
		}
		fmt.Fprintf(&b, "\n%s %s (%s)\n  expected  %s\n  received  %s\n", x.Status, x.Check, x.Protocol, x.Expected, x.Came)
		if x.Reason != "" {
			fmt.Fprintf(&b, "  reason    %s\n", x.Reason)
		}
	}
	if len(r.Latency) > 0 {
		b.WriteString("\n")
		t = tabwriter.NewWriter(&b, 0, 4, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "milliseconds\tcalls\tp50\tp90\tp99\tmax\t")
		for _, op := range operations {
			if l, ok := r.Latency[op]; ok {
				fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t\n", op, l.Calls, l.P50, l.P90, l.P99, l.Max)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b, "\n%d passed, %d warnings, %d failed, %d skipped; %d requests in %.1f s\n",
		r.Count(Pass), r.Count(Warn), r.Count(Fail), r.Count(Skip), r.Requests, r.Seconds)
	if r.Left > 0 {
		fmt.Fprintf(&b, "%d instances remain open on the server, which cannot close them\n", r.Left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const protocol = "AgentGym protocol "

// notes collects the findings of a check.
type notes struct{ all []note }

type note struct {
	status    Status
	came, why string
}

func (n *notes) pass(format string, args ...any) {
	n.all = append(n.all, note{Pass, fmt.Sprintf(format, args...), ""})
}

func (n *notes) fail(format string, args ...any) {
	n.all = append(n.all, note{Fail, fmt.Sprintf(format, args...), ""})
}

func (n *notes) warn(why, format string, args ...any) {
	n.all = append(n.all, note{Warn, fmt.Sprintf(format, args...), why})
}

func (n *notes) skip(why string) { n.all = append(n.all, note{Skip, "nothing", why}) }

// sum returns the worst status and the findings with that status.
func (n *notes) sum() (s Status, came, why string) {
	s = Pass
	for _, x := range n.all {
		if severity[x.status] > severity[s] {
			s = x.status
		}
	}
	var cames, whys []string
	for _, x := range n.all {
		if x.status != s {
			continue
		}
		cames = appendNew(cames, x.came)
		if x.why != "" {
			whys = appendNew(whys, x.why)
		}
	}
	const most = 4
	if len(cames) > most {
		cames = append(cames[:most], fmt.Sprintf("and %d more", len(cames)-most))
	}
	return s, strings.Join(cames, "; "), strings.Join(whys, "; ")
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
