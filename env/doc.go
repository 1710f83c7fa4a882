// Package env talks to AgentGym environment servers over HTTP.
//
// It contains the Client interface, the registry of environments, a file for each
// environment that describes its servers and the model's instruction (the five tool
// servers share tool.go), the client that follows these descriptions
// (instance.go), the environments that only a configuration describes: servers of a
// user's own (agentgym.go) and prompt tasks without a server (prompt.go), and the rules
// of HTTP: time limits, reply size, repetition, typed errors. Package action reads actions out of replies, package pool leases
// instances. Servers (env/builtin, env/supervise), the episode loop (agent) and
// scores (reward) are elsewhere.
//
// Two rules apply to all clients. A step that may have reached the server is never
// sent again. A failure is an *Error with the request and the server's answer.
//
// The registry is filled by init functions and read-only afterwards. A Client is
// used by one goroutine at a time and otherwise returns ErrBusy. All clients share
// one HTTP transport.
package env
