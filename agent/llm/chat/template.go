// Package chat renders chat templates and turns conversations into token ids.
//
// It contains an evaluator for the part of Jinja2 that the chat templates of
// published models use, with the settings of Hugging Face's
// apply_chat_template (trim_blocks, lstrip_blocks, its tojson,
// raise_exception, strftime_now, generation blocks, loop controls), and the
// Renderer, which extends a conversation by appending ids only. Token ids
// themselves belong to package tokenizer.
//
// Templates come with models and are not trusted: they can read only their
// input, and their steps, sizes and nesting are bounded. An unknown tag is an
// error of Parse. An unknown filter, test or function is an error of Render if
// it is evaluated, as in Jinja. Both errors name the line.
//
// A Template and a Renderer are immutable and may be used by many goroutines.
package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/openmanus/openmanus/data"
)

// Error is an error of a template, of its input or of a rendering.
type Error struct {
	Line int // line of the template, from 1; 0 for an error of the input
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "chat template input: " + e.Msg
	}
	return fmt.Sprintf("chat template line %d: %s", e.Line, e.Msg)
}

// recoverError stores in err the *Error that ended parsing or rendering. As in
// text/template, the lexer, the parser and the evaluator panic with this
// error. Parse and Render recover it.
func recoverError(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// Template is a parsed chat template.
type Template struct{ body stmt }

// Parse parses a chat template. Its errors are of type *Error.
func Parse(src string) (t *Template, err error) {
	defer recoverError(&err)
	p := &parser{tokens: lex(src)}
	body, _ := p.body(0)
	return &Template{body}, nil
}

// Input holds the variables of a rendering.
type Input struct {
	Messages            []data.Message
	AddGenerationPrompt bool
	// Vars are further variables, such as bos_token and tools. They take precedence
	// over the variables above. A json.RawMessage keeps the order of its keys.
	Vars map[string]any
	// Now is the clock of strftime_now; nil means time.Now.
	Now func() time.Time
}

// Render renders the template. Its errors are of type *Error.
func (t *Template) Render(in Input) (out string, err error) {
	defer recoverError(&err)
	c := &context{globals: new(dict), scope: &scope{}, out: new(strings.Builder), now: in.Now}
	if c.now == nil {
		c.now = time.Now
	}
	for name, f := range functions {
		c.globals.set(name, &callable{name: name, f: f})
	}
	for name, v := range map[string]any{
		"messages": in.Messages, "add_generation_prompt": in.AddGenerationPrompt, "tools": nil, "documents": nil,
	} {
		c.globals.set(name, c.convert(v))
	}
	for name, v := range in.Vars {
		c.globals.set(name, c.convert(v))
	}
	c.line = 1
	t.body(c)
	return c.out.String(), nil
}
