// Command bench measures how fast openmanus is: against transformers and TRL
// where they do the same work, and how well environment latency hides behind
// generation. `./build.sh bench` builds and starts it. Checks of behaviour are
// in internal/accept.
//
// It owns the workloads, the protocols with the peers' scripts, and the report.
//
// Concurrency: one measurement at a time. A peer is a process of its own that
// waits while ours runs, and the other way round, so that both see the same
// machine, busy or idle.
package main
