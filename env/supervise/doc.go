// Package supervise runs AgentGym environment servers. It has a recipe for starting
// each server from a checkout, creates their virtual environments, starts several
// servers on consecutive ports, waits until they answer HTTP, keeps a log of each,
// restarts servers that died, and stops all of them.
//
// Package env talks to the servers and env/pool selects them; Options.OnDown and
// OnReady inform the pool.
//
// No server outlives the program. Every server is the child of a watchdog: a second
// process of this program that reads a pipe. When the pipe closes, because the program
// closed it or was killed, the watchdog ends the server and all its descendants. As a
// subreaper it inherits processes whose parents died, so that it finds a JVM or the
// child of a wrapper script even if it left the server's process group. If the
// watchdog itself is killed, the kernel ends the server, and the program finds the
// other processes by a mark in their environment.
//
// Concurrency: a Group has one goroutine per server. Start waits until all servers are
// ready, Close until all are gone. These goroutines call OnDown and OnReady, one call
// at a time for each server.
//
// The package requires Linux.
package supervise
