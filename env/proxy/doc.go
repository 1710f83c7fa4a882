// Package proxy stands between clients and one environment server and makes
// it fail on purpose, so that one can see what a run makes of bad servers.
//
// It owns the forwarding, the journal of every fault it injected, and their
// counts, which GET /__faults answers. The faults themselves are env/fault's,
// the listening socket env/listen's.
//
// How a client of package env sees each kind, and under which name it counts it
// (env.Counts, and servers/faults/NAME in a run's metrics):
//
//	500, 503, …  http_500, …  the status as injected
//	hang         timeout      no status, after the client's own time
//	slow         slow         a reply that took the pause longer, and says so
//	truncate     truncated    a status, then the connection ended: the body is
//	                          short (reset where the reply had no body)
//	reset        reset        no status: the connection ended
//	duplicate    duplicate    the second of two replies, which says so. The
//	                          server has had two creates or two resets
//
// Replies that can still carry a header name their faults in X-Openmanus-Fault.
// That is how a pause and a duplicate are told from a slow server and a single
// request; nothing else about them can be seen. The counts agree, kind by kind,
// as long as no pause is as long as the client's patience, the client is not
// interrupted in a request, and the server itself does nothing wrong. What no
// client counts meets no fault: GET / and GET /openapi.json.
//
// Concurrency: a Proxy serves any number of requests at once. Whoever calls
// Serve calls Server.Close, which waits for every goroutine.
package proxy
