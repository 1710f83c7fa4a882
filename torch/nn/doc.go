// Package nn defines the layers of decoder-only language models as small structs whose fields are the
// checkpoint's parameters. Field tags give their names: hf the name in a Hugging Face checkpoint, gguf
// the name in a GGUF file (llama.cpp's gguf-py/gguf/constants.py). The option rotary of a gguf tag
// marks projections whose output is rotated, since some GGUF files order their rows differently.
//
// The package owns no memory: the tensors in the fields belong to the caller, and a parameter that a model lacks (a bias) is
// the zero Tensor. Shapes are for packed sequences: N is the number of tokens of all sequences, without padding. Like
// all operations the layers are used inside torch.Run, on one thread.
package nn
