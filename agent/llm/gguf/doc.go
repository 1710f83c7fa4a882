// Package gguf reads GGUF model files, versions 2 and 3, little-endian: their
// metadata, the tokenizer in it, their tensors, and the dequantisation of the
// tensor types F32, F16, BF16, Q8_0, Q4_0 and Q4_1 to float32.
//
// It owns the file format and the tokenizer.ggml keys. It does not interpret
// the keys and tensor names of a model family (package model). Files are mapped
// read-only, and every count and offset is checked before it is used.
//
// A File may be used by many goroutines at once; Close must come after the
// last use.
package gguf
