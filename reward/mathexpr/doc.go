// Package mathexpr reads arithmetic, as Python or as LaTeX writes it, and says
// what it is worth: exactly where that is a rational number, else in floating
// point at given values of its variables.
//
// It is an evaluator, not an algebra system: it never rewrites. The text comes
// from a model, so length, depth and the size of numbers are bounded. All
// functions are pure and may run concurrently.
package mathexpr
