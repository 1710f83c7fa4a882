// Command bench measures how fast openmanus is: against transformers and TRL
// where they do the same work, and how well environment latency hides behind
// generation. `./build.sh bench` builds and starts it. Checks of behaviour are
// in internal/accept.
//
// It owns the workloads, the protocols with the peers' scripts, and the report.
//
// Concurrency: one measurement at a time. A peer is a separate process. The two
// sides never run at the same time, so that neither slows the other down.
package main
