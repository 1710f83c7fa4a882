package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/openmanus/openmanus/env/check"
)

// print writes a table, then notes and faults of each environment.
func (g *AgentGym) print(w io.Writer) error {
	fmt.Fprintf(w, "agentgym: servers of %s, played by %s; %d turns of %d tokens\n", g.Checkout, g.Model, gymTurns, gymTokens)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  environment\tinstalled\tPASS / WARN / FAIL / SKIP\tepisodes\toutcomes\tturns\tcalls\tprocesses left\tseconds\t")
	for _, r := range g.Runs {
		if r.Missing != "" {
			fmt.Fprintf(table, "  %s\tnot tried\t\t\t\t\t\t\t\t\n", r.Env)
			continue
		}
		installed := "before"
		if r.Installed > 0 {
			installed = fmt.Sprintf("%.0f s", r.Installed)
		}
		calls := 0
		for _, n := range r.Dump.Calls {
			calls += n
		}
		fmt.Fprintf(table, "  %s\t%s\t%d / %d / %d / %d\t%d\t%s\t%d\t%d\t%d\t%.0f\t%s\n", r.Env, installed,
			r.Checks[check.Pass], r.Checks[check.Warn], r.Checks[check.Fail], r.Checks[check.Skip],
			r.Episodes, r.Dump.outcomes(), r.Dump.Turns, calls, len(r.Left), r.Seconds, verdict(len(r.Faults) == 0))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range g.Runs {
		if r.Packages != "" {
			fmt.Fprintf(w, "  %s: %s\n", r.Env, r.Packages)
		}
		if len(r.Warnings) > 0 {
			fmt.Fprintf(w, "  %s: warnings: %s\n", r.Env, strings.Join(r.Warnings, ", "))
		}
		for _, note := range r.Notes {
			fmt.Fprintf(w, "  %s: %s\n", r.Env, note)
		}
		if r.Missing != "" {
			fmt.Fprintf(w, "  %s: not tried: %s\n", r.Env, r.Missing)
		}
		for _, what := range r.Faults {
			fmt.Fprintf(w, "  %s: NOT kept: %s\n", r.Env, what)
		}
	}
	_, err := fmt.Fprintf(w, "  no FAIL in checks, every episode played, messages as the protocol defines them, no process left: %s\n", verdict(g.kept()))
	return err
}
