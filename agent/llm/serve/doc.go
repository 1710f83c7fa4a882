// Package serve answers the requests of OpenAI's HTTP API with a model of this process.
//
// It contains the Handler, which translates /v1/models, /v1/completions and
// /v1/chat/completions to an engine.Engine, the limits on requests, and the Server, which
// listens and stops cleanly. Batching belongs to agent/llm/engine: many requests at once
// share its batches. Sessions are the interface to agent/remote, which records the
// requests of one agent as an episode.
//
// The wire format is that of OpenAI's API reference. The fields top_k, return_token_ids,
// token_ids and prompt_token_ids are those of vLLM's server.
//
// Concurrency: a Handler may be used by many goroutines. The goroutines of a request end
// before its reply does. The caller of Listen must call Server.Close, which waits for all
// requests.
package serve
