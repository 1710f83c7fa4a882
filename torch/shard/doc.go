// Package shard distributes the parameters of a model over the ranks of a group, as ZeRO does (Rajbhandari et al. 2020,
// arXiv:1910.02054, stages 1 to 3).
//
// The parameters of a [Unit], such as a decoder layer, are laid out in one flat tensor, padded to a multiple of the number of
// ranks. Each rank owns a contiguous shard of it. The level decides what else a rank holds:
//
//	level      full weights                    gradients                             moments, float32 masters
//	optimizer  always                          of all parameters, until the step     of the own shard
//	gradients  always                          of the own shard                      of the own shard
//	weights    between Gather and Release      of the own shard                      of the own shard
//
// Under the levels gradients and weights, the gradients of a micro-batch are summed over the ranks unit by unit during its backward
// pass, those of adapters after it, and added to those of the own shard.
//
// The package owns the tensors of its units. It does not own the order of gathering, which package model decides, nor the
// moments, which package optim keeps. All methods with a Scope must be called inside torch.Run. Those that say so are
// collectives: all ranks call them in the same order.
package shard
