// Package tokenizer turns text into token ids and back exactly as Hugging
// Face's tokenizers library ("the reference") does, for the byte-level BPE
// tokenizers of Llama-3, Qwen2, Qwen2.5, Qwen3 and SmolLM2.
//
// It reads tokenizer.json and tokenizer_config.json, builds a tokenizer.json
// from a vocabulary, and trains a small vocabulary for a new model. Package
// chat has the chat templates. Package gguf reads GGUF files and builds their
// tokenizers with this package.
//
// A component, type or option of tokenizer.json that this package does not
// implement is an error with its name. The reference's truncation and padding
// settings are ignored, as in transformers by default.
//
// Text is made valid UTF-8 first, because the reference accepts only valid text:
// every maximal ill-formed subsequence becomes U+FFFD (The Unicode Standard,
// section 3.9), as in Rust's from_utf8_lossy and Python's errors="replace".
//
// A Tokenizer is immutable, apart from a cache of words with a lock: many
// goroutines may call its methods. Only one goroutine may use a StreamDecoder.
package tokenizer
