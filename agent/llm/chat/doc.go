// Package chat renders chat templates and turns conversations into token ids.
//
// It owns an evaluator for the part of Jinja2 that the chat templates of
// published models use, with the settings of Hugging Face's
// apply_chat_template (trim_blocks, lstrip_blocks, its tojson,
// raise_exception, strftime_now, generation blocks, loop controls), and the
// Renderer, by which a conversation grows by appending ids only. It does not
// own token ids themselves (package tokenizer) nor what messages say.
//
// Templates come with models and are not trusted: they have no access to
// anything but their input, and steps, sizes and depth are bounded. An unknown
// tag is an error of Parse, an unknown filter, test or function one of Render
// if it runs, as in Jinja; both name the line.
//
// A Template is immutable and may be rendered by many goroutines. A Renderer
// serves one conversation at a time.
package chat
