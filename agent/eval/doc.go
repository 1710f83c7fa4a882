// Package eval says what a set of played episodes amounts to.
//
// It owns the figures of an evaluation with their intervals (success rate,
// mean@n, best@n, pass@k, shares of outcomes), the contract that says under
// which conditions they hold, and the comparison of two results. It does not
// own playing (agent/rollout) or what goes into a contract: its caller knows.
//
// Everything here is a pure function; equal inputs give equal bytes.
package eval
