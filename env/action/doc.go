// Package action reads the action out of a model's reply.
//
// It contains the parsers of AgentGym's Python clients (text.go), the two
// formats in which a model calls functions, JSON (json.go) and Python
// (python.go), the functions of an environment (Functions), and the notation of
// tool servers (tool.go). A Grammar is the combination that one environment
// client uses.
//
// The package has no state: all functions may be called concurrently.
package action
