// Package tokenizer turns text into token ids and back exactly as Hugging
// Face's tokenizers library does, for the byte-level BPE tokenizers of Llama-3,
// Qwen2, Qwen2.5, Qwen3 and SmolLM2.
//
// It owns tokenizer.json and tokenizer_config.json: reading both, building a
// tokenizer.json from a vocabulary, and training a small vocabulary for a new
// model. It does not own chat templates (package chat) or GGUF files
// (package gguf, which builds the tokenizers in them with this one).
//
// A component, type or option of tokenizer.json that this package does not
// implement is an error that names it. The library's truncation and padding
// settings are ignored, as in transformers by default.
//
// Text is made valid UTF-8 first, because the reference accepts only valid text:
// every maximal ill-formed subsequence becomes U+FFFD (The Unicode Standard,
// section 3.9), as in Rust's from_utf8_lossy and Python's errors="replace".
//
// A Tokenizer is immutable, apart from a cache of words with a lock: many
// goroutines may call its methods. A StreamDecoder belongs to one.
package tokenizer
