// Package algo trains: it turns episodes into batches, batches into
// advantages and losses, and losses into updated weights, phase by phase, and
// keeps a run resumable.
//
// A Trainer owns the model, its optimiser and the run folder. All its methods
// are called by one goroutine; episodes are played by the pool of
// agent/rollout while no update is in flight. Estimators, losses, KL and
// rollout correction are packages of their own below it, found by name.
package algo
