// Package kl measures how far a policy is from a reference, token by token:
// estimators for metrics and rewards on numbers, the same on tensors with
// gradients for the loss, the KL taken off rewards, and the controllers of its
// coefficient.
package kl
