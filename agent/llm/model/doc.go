// Package model holds the decoders that are trained and sampled from: llama,
// qwen2 and qwen3, in a registry by architecture.
//
// It owns the architectures, their configuration (config.json in the layouts
// of transformers 4 and 5, GGUF metadata), reading weights from Hugging Face
// folders and GGUF files, and writing folders that transformers opens. A
// decoder's fields carry the checkpoint's names. It does not own sampling or
// the life of KV blocks (agent/llm/generate), optimiser state or master copies
// (algo), tokenization (agent/llm/tokenizer) or templates (agent/llm/chat).
//
// Concurrency: a model belongs to one torch.Thread. Forward, Decode and
// everything else that takes a *torch.Scope runs inside torch.Run on that
// thread; Open, New, Shadow, Save and Hash call torch.Run themselves and must
// not be called inside it. Close may be called by any goroutine, once no other
// call is under way.
package model
