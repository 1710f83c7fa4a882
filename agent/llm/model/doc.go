// Package model contains the decoders for training and sampling: llama, qwen2
// and qwen3, in a registry by architecture.
//
// It defines the architectures and their configuration (config.json in the layouts
// of transformers 4 and 5, GGUF metadata), reads weights from Hugging Face folders
// and GGUF files, and writes folders that transformers opens. Each family of models
// is one file: see llama.go, and docs/howto-model.md. A model for generation may be
// tensor parallel over several ranks: see tensorparallel.go. Other packages have sampling
// and KV blocks (agent/llm/generate), optimiser state and master copies (algo),
// tokenization (agent/llm/tokenizer) and templates (agent/llm/chat).
//
// Concurrency: a model belongs to one torch.Thread. Forward, Decode and
// everything else that takes a *torch.Scope runs inside torch.Run on that
// thread; Open, New, Shadow, Save and Hash call torch.Run themselves and must
// not be called inside it. Any goroutine may call Close when no other call is
// in progress.
package model
