// Package pool leases environment instances on the servers of one environment.
//
// A Pool balances leases over its servers, reuses instances (Client.Reset starts a new
// episode), and takes a failing server out of service until the server answers a probe.
// It detects the restart of a server and invalidates the instances from before the
// restart, since the new process uses their ids for other instances.
//
// A Pool is safe for concurrent use. A Lease belongs to one goroutine at a time.
package pool
