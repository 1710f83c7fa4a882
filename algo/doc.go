// Package algo runs the training loop. A step collects episodes or rows, updates the
// weights, validates if due, and writes a line of metrics; every run can be resumed. A
// Method implements the step: policy gradient, AgentEvol, recorded episodes, or
// supervised training.
//
// One goroutine calls a Trainer. Package agent/rollout plays the episodes, between the
// updates or, with Play.AsyncSteps, also while they run. Package learner owns the weights and their updates, package
// rundir the run folder. Packages advantage, loss, kl and correction own the formulas,
// which are found by name.
package algo
