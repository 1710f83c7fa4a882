// Package check tells whether a server behaves as an AgentGym environment
// server does: shapes of replies, status codes, ids, sessions side by side,
// closing, ended episodes, bad requests, and how long all of it takes.
//
// It owns a description of every environment of AgentGym (games.go, tools.go),
// made from the project's notes on the protocol, the checks, and a small HTTP
// client that writes requests byte for byte and hides nothing of what comes
// back. It does not play for a model: that is package env.
//
// Results are PASS, WARN for what AgentGym's own servers also do and a client
// has to live with, FAIL for what breaks a client, SKIP for what could not be
// seen. Every call has a time limit: a server that hangs fails, the check ends.
//
// Concurrency: Run is called by one goroutine and waits for those it starts.
package check
