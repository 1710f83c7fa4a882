package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/openmanus/openmanus/data"
)

// Template is a parsed chat template.
type Template struct {
	src  string
	body []stmt
}

// Source is the template's text.
func (t *Template) Source() string { return t.src }

// Parse parses a chat template. Its errors carry the line.
func Parse(src string) (*Template, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, err := p.template()
	if err != nil {
		return nil, err
	}
	return &Template{src: src, body: body}, nil
}

// Input is what a template sees.
type Input struct {
	Messages            []data.Message
	AddGenerationPrompt bool
	// Tools are nil, or a list of tool schemas; give json.RawMessage or a
	// value of JSON to keep the order of their keys.
	Tools any
	// Vars are further variables, such as bos_token and eos_token. They go
	// before the variables above if they have the same name.
	Vars map[string]any
	// Now is the clock of strftime_now; nil is the system's.
	Now func() time.Time
}

// Render renders the template.
func (t *Template) Render(in Input) (string, error) {
	c := &context{globals: newDict(), scope: &scope{}, out: new(strings.Builder), now: in.Now}
	if c.now == nil {
		c.now = time.Now
	}
	for name, f := range functions {
		c.globals.put(name, &callable{name, f})
	}
	vars := map[string]any{
		"messages": in.Messages, "add_generation_prompt": in.AddGenerationPrompt, "tools": in.Tools, "documents": nil,
	}
	for name, v := range in.Vars {
		vars[name] = v
	}
	for name, v := range vars {
		x, err := convert(v)
		if err != nil {
			return "", fmt.Errorf("variable %q: %w", name, err)
		}
		c.globals.put(name, x)
	}
	if err := c.run(t.body); err != nil {
		return "", at(err, 1)
	}
	return c.out.String(), nil
}
