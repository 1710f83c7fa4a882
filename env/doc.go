// Package env talks to AgentGym environment servers over HTTP.
//
// It owns the Client interface and the registry of environments, one client
// per environment with that server's quirks (the five tool servers share
// tool.go; indexed.go is what the servers with an "env_idx" have in common),
// the parsers that cut an action out of a model's text (parser.go, fence.go,
// and funccall.go and codecall.go for function calls), the HTTP rules every
// client obeys (time limits, reply size, what may be sent twice, typed
// errors), and the Pool that leases instances on several servers. It does not
// own servers (env/builtin), the episode loop (agent) or scores (reward).
//
// Two rules are never bent: a step that may have reached the server is not
// sent again, and a failure is an *Error that says what was asked of whom and
// what the server answered.
//
// Concurrency: the registry is filled by init functions and read-only after.
// A Client is used by one goroutine at a time, and says ErrBusy otherwise; a
// Pool is safe for any number of goroutines. All clients share one HTTP
// transport.
package env
