// Package algo runs the training loop. A step collects episodes or rows, updates the
// weights, validates if due, and writes a line of metrics; every run can be resumed. A
// Method implements the step: policy gradient, AgentEvol, recorded episodes, or
// supervised training.
//
// One goroutine calls a Trainer. Episodes are played by the pool of agent/rollout while
// no update is in flight. The packages below own the parts: learner the weights and
// their updates, rundir the run folder, advantage, loss, kl and correction the formulas,
// which are found by name.
package algo
