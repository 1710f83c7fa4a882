// Package supervise runs AgentGym environment servers. It contains a recipe for each
// server in a checkout, creates virtual environments, starts several servers on
// consecutive ports, waits until they answer HTTP, writes a log for each server,
// restarts servers that died, and stops all servers.
//
// Package env talks to the servers and env/pool selects them; Options.OnDown and
// OnReady inform the pool.
//
// No server outlives the program. Every server is the child of a watchdog: a second
// process of this program that reads a pipe. When the pipe closes, because the program
// closed it or was killed, the watchdog ends the server and all its descendants. As a
// subreaper the watchdog inherits processes whose parents died, so that it also finds
// a JVM or the child of a wrapper script outside of the server's process group. If
// the watchdog itself is killed, the kernel ends the server, and the program finds
// the other processes by a mark in their environment.
//
// Concurrency: a Group has one goroutine per server, which calls OnDown and OnReady
// one at a time. Start waits until all servers are ready, Close until all servers
// have ended.
//
// The package requires Linux.
package supervise
