// Package check tests that a server conforms to the protocol of AgentGym's
// environment servers: formats of replies, status codes, ids, concurrent
// sessions, closing, ended episodes, invalid requests, and latency.
//
// It contains a description of every environment of AgentGym (games.go, tools.go),
// the checks, and an HTTP client that neither retries nor follows redirects. Package
// env has the clients that play for a model.
//
// A result is PASS, WARN (a deviation that AgentGym's servers also have or that
// clients tolerate), FAIL (a deviation that breaks clients) or SKIP (not tested).
// Every call has a time limit, so a hung server cannot block the check.
//
// Run waits for all goroutines that it starts.
package check
