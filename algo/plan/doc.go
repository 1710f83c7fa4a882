// Package plan predicts the memory and the time of a training step before the weights
// are loaded. It measures small models with the widths of the planned model, and
// extrapolates to the planned number of layers, vocabulary and tokens.
package plan
