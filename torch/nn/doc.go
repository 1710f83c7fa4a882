// Package nn holds the layers of decoder-only language models as small structs whose fields are the checkpoint's names:
// q_proj.weight is Attention.QProj.Weight.
//
// It owns no memory: the tensors in the fields belong to the caller, and a field that a model lacks (a bias) is
// the zero Tensor. Shapes are those of packed sequences: N tokens of all sequences one after the other, no padding. Like
// all operations the layers are used inside torch.Run, on one thread.
package nn
