// Package optim updates parameters from their gradients: AdamW as torch.optim.AdamW, clipping by the global norm, and
// learning-rate schedules.
//
// It owns the optimiser's state and, for parameters of a 16-bit type, their float32 master weights. It does not own the
// parameters, compute gradients, or decide when a step is due. Like everything on tensors, [AdamW.Step] is called inside
// torch.Run; [AdamW.Save], [AdamW.Load] and [AdamW.Close] are called outside.
package optim
