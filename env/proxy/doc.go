// Package proxy stands between clients and one environment server and makes
// it fail on purpose, so that one can see what a run makes of bad servers.
//
// It owns the forwarding, the journal of every fault it injected, and their
// counts, which GET /__faults answers. The faults themselves are env/fault's,
// the listening socket env/listen's.
//
// How a client of package env sees each kind, in the exchange it records:
//
//	500, 503, …  status as injected, "server error" ("request refused" for 4xx)
//	hang         no status, "time limit", after the client's own time
//	slow         a reply that took the pause longer; nothing else
//	truncate     a status, then "connection failure": the body ended early
//	             (no status where the reply had no body)
//	reset        no status, "connection failure"
//	duplicate    nothing: the second of two replies. The server has had two
//	             creates or two resets
//
// Replies that could still carry a header name their fault in
// X-Openmanus-Fault.
//
// Concurrency: a Proxy serves any number of requests at once. Whoever calls
// Serve calls Server.Close, which waits for every goroutine.
package proxy
