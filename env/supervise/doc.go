// Package supervise runs AgentGym environment servers: it knows how each one
// is started from a checkout (recipes), makes virtual environments for them,
// starts several on consecutive ports, waits until they answer HTTP, keeps a
// log of each, starts a dead one again, and ends all of them.
//
// It does not talk to environments (env does) and does not choose which
// servers are used (env.Pool does); Options.OnDown and OnReady tell the pool.
//
// No server outlives the program, however it ends. Every server is the child
// of a watchdog: this program started a second time, which does nothing but
// hold a pipe. When the pipe closes, because the program closed it or because
// it was killed, the watchdog ends the server and everything that came of it.
// As subreaper it inherits processes whose parents died, so that a JVM or the
// child of a wrapper script is found even if it left the server's process
// group. Should the watchdog itself be killed, the kernel ends the server, and
// the program ends the rest by a mark in their environment.
//
// Concurrency: a Group has one goroutine for every server; Start waits until
// all are ready, Close until all are gone. OnDown and OnReady are called by
// those goroutines, one call at a time for one server.
//
// The package needs Linux.
package supervise
