// Package rollout plays many episodes at once (OpenManus-RL's run_llm_loop).
//
// It owns groups of samples, the seeds of episodes, the leases of environment
// instances, retries after failures of the infrastructure, and the metrics of
// a set of episodes. It does not own the episode itself (agent), batching
// (agent/llm/engine) or scores (reward).
//
// Concurrency: RunEpisodes starts one goroutine per episode, at most
// Options.Concurrency at a time, and has waited for all of them when it
// returns. Callbacks are called one at a time.
package rollout
