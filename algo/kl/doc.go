// Package kl estimates the KL divergence of a policy from a reference for every token:
// on numbers for metrics and rewards, and on tensors with gradients for the loss. It
// also subtracts the KL from rewards and adapts its coefficient.
package kl
