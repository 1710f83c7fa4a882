// Package agent plays one episode: a language model's turns against one
// environment instance, token by token.
//
// It owns the loop (RunEpisode), the prompt formats that say how a model
// writes an action and how it is read back, what a model is told first, and
// how an episode ends. It does not own generation (agent/llm/engine), environments
// (env), chat templates (agent/llm/chat, behind Renderer), or who plays which
// episode when (agent/rollout).
//
// Concurrency: RunEpisode runs in the caller's goroutine and starts none.
// Formats are stateless and may be used by many goroutines; so must a
// Renderer be.
package agent
