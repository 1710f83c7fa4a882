// Package model holds the decoders that are trained and sampled from: llama,
// qwen2 and qwen3, in a registry by architecture.
//
// It owns the architectures, their configuration (config.json in the layouts
// of transformers 4 and 5, GGUF metadata), reading weights from Hugging Face
// folders and GGUF files, and writing folders that transformers opens. A family
// of models is one file: see llama.go, and docs/howto-model.md. It does not own
// sampling or KV blocks (agent/llm/generate), optimiser state or master copies
// (algo), tokenization (agent/llm/tokenizer) or templates (agent/llm/chat).
//
// Concurrency: a model belongs to one torch.Thread. Forward, Decode and
// everything else that takes a *torch.Scope runs inside torch.Run on that
// thread; Open, New, Shadow, Save and Hash call torch.Run themselves and must
// not be called inside it. Any goroutine may call Close when no other call is
// in progress.
package model
