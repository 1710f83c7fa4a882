// Package text lets engines that only speak text play episodes.
//
// The episode loop appends token ids (agent, agent/llm/engine). An engine that has
// no vocabulary of its own, such as a service on the network, is given
// conversations instead: here a byte of text is an id, and a few ids above the
// bytes stand for what text cannot say, who speaks and where a message ends.
// So every format and every rule of the loop holds for such an engine too,
// with one difference: lengths in ids are lengths in bytes, and log-probs are
// 0. The ids are no model's; episodes are kept without them
// (data.Episode.ForgetIDs), and cannot be trained on token by token.
//
// It owns the ids, the Renderer, and the Engine that turns a Speaker into an
// engine.Engine. It knows no network; agent/openai is the Speaker that does.
//
// Concurrency: Renderer is stateless. An Engine may be used by many goroutines
// if its Speaker may.
package text
