// Package mathexpr parses arithmetic in Python or LaTeX notation and evaluates it:
// exactly if the value is rational, otherwise in floating point at given values of
// its variables.
//
// It evaluates and never rewrites an expression. The text comes from a model,
// so length, depth and the size of numbers are bounded. All functions are pure
// and may run concurrently.
package mathexpr
