// Package loss holds the policy losses: functions from the log-probs of sampled
// tokens to one loss for each, made of plain tensor operations whose gradient is
// autograd's; and the aggregations that make one number of them. Each loss is
// one file that opens with its formula, its source and what differs from it,
// and is found by name in Policies.
//
// Everything is over the tokens in the loss alone, so no mask comes in. No
// result depends on how a mini-batch is cut into micro-batches: what a loss
// must know of the whole mini-batch is counted before (Aggregation) or chosen
// before (Policy.Choose).
package loss
