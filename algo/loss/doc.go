// Package loss holds the policy losses, functions from the log-probs of sampled
// tokens to one loss per token, and the aggregations of token losses to one
// number. Losses consist of tensor operations; autograd computes the gradients.
// Each loss is one file, which opens with the formula, its source and the
// differences from the source. Policies holds the losses by name.
//
// The inputs hold only the tokens in the loss, so no function takes a mask.
// Results do not depend on the division of a mini-batch into micro-batches:
// statistics of the whole mini-batch are computed beforehand, by Aggregation and
// Policy.Choose.
package loss
