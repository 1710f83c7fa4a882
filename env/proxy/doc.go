// Package proxy forwards requests to an environment server and injects faults, to
// test a run with failing servers.
//
// It contains the forwarding, the journal of injected faults, and their counts, which
// GET /__faults returns. Package env/fault injects the faults.
//
// The table lists the kind of a fault, the name under which a client of package env
// counts it (pool.Counts, and servers/faults/NAME in a run's metrics), and its effect:
//
//	500, 503, …  http_500, …  the injected status
//	hang         timeout      no status until the client's timeout
//	slow         slow         a reply that takes longer, with the header
//	truncate     truncated    a status, then the end of the connection: the body is
//	                          incomplete (reset if the reply has no body)
//	reset        reset        no status: the connection ends
//	duplicate    duplicate    the second of two replies, with the header; the server
//	                          received two creates or two resets
//
// The header X-Openmanus-Fault lists the faults of a reply, if the reply has headers.
// It is the only sign of a pause or a duplicate. The counts of proxy and clients agree
// for every kind if no pause is as long as the client's timeout, the client is not
// interrupted during a request, and the server itself does not fail. GET / and
// GET /openapi.json get no faults, because clients do not count failures of these requests.
//
// Concurrency: a Server serves concurrent requests. The caller of Serve must call
// Server.Close, which waits for all goroutines.
package proxy
