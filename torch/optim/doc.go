// Package optim updates parameters from their gradients: AdamW as torch.optim.AdamW, clipping by the global norm, and
// learning-rate schedules.
//
// It owns the optimiser's state and, for parameters of a 16-bit type, float32 master weights. It does not own the
// parameters and does not compute gradients. [StepAll] sums the gradients over the ranks of a group. [AdamW.Step], like all tensor operations, must be called inside torch.Run.
// [AdamW.Save], [AdamW.Load] and [AdamW.Close] must be called outside.
package optim
