// Command bench measures how fast openmanus is, against transformers and TRL
// where they have a peer for the work, and checks promises: that environment
// latency hides behind generation, that memory does not grow, and that the
// quickstart learns whatever its seed and by whichever method. `./build.sh bench` and `./build.sh accept`
// build and start it.
//
// It owns what is measured and how, the protocols with the peers' scripts, and the
// report. It does not own anything that it measures, and nothing imports it.
//
// Concurrency: one measurement at a time. The peer is a process of its own that
// waits while ours runs and the other way round, so that both meet the same
// machine, busy or not.
package main
