// Package gguf reads little-endian GGUF model files of versions 2 and 3: the
// metadata, the tokenizer in it, the tensors, and their dequantisation from
// F32, F16, BF16, Q8_0, Q4_0 and Q4_1 to float32. It writes files of version 3
// with tensors of F32, BF16 and Q8_0.
//
// It interprets only the tokenizer.ggml keys; package model interprets the
// other keys and the tensor names. Files are mapped read-only, and every count
// and offset is checked before it is used.
//
// Many goroutines may use a File at once; Close must come after the last use.
package gguf
