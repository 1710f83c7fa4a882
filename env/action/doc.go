// Package action reads the action out of a model's reply.
//
// It owns the parsers of AgentGym's Python clients (text.go), the two formats
// in which a model calls functions, JSON (json.go) and Python (python.go), with
// the functions that an environment offers (Functions), and the notation of
// tool servers (tool.go). A Grammar is the combination that one environment
// client uses.
//
// Nothing here keeps state: all functions may be called concurrently.
package action
