// Package plan predicts the memory and the time of a training step before the weights
// are loaded. It measures small models with the widths of the planned model, and
// extrapolates to the planned number of layers, vocabulary and tokens. Sizes are in bytes and
// times in seconds.
//
// Costs are constant after Measure and safe for concurrent use. Measure uses the device of its
// thread.
package plan
