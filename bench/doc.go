// Command bench compares the speed of openmanus with transformers, llama.cpp and TRL where
// they do the same work, and with the bound of the machine, which it measures itself. It also measures whether
// rollouts hide the latency of an environment. `./build.sh bench` builds and starts it. Checks of behaviour are
// in internal/accept.
//
// The command owns the workloads (rows.go), their bounds, the protocols with the peers' scripts, the stored shares, and the report.
//
// Concurrency: one measurement at a time. A peer is a separate process. The
// sides never run at the same time, so that none slows another down.
package main
