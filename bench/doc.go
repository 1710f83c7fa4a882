// Command bench compares the speed of openmanus with transformers and TRL where
// they do the same work, and measures whether rollouts hide the latency of an
// environment. `./build.sh bench` builds and starts it. Checks of behaviour are
// in internal/accept.
//
// The command owns the workloads, the protocols with the peers' scripts, and the report.
//
// Concurrency: one measurement at a time. A peer is a separate process. The two
// sides never run at the same time, so that neither slows the other down.
package main
