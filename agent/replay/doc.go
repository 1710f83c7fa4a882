// Package replay plays recorded episodes again without any server: what a
// server said comes from the record, what the model said is forced, and all
// that follows from these is compared with what was recorded. With a model,
// the sampler says at every token what it would have drawn.
//
// It owns the comparison; it does not read files, and it opens no model: an
// engine comes from outside, over a backend whose Teacher is a Class. Episodes
// are played by one goroutine each.
package replay
