package chat

import "html"

// markup is the result of the filter safe or escape, like Markup of the Python
// package markupsafe. Templates render without autoescape, so printing and '~'
// do not change markup. The operations '+', format, join and replace escape the
// plain strings that they put into markup, as in transformers.
type markup string

// escaped returns v as markup. If v is not markup, it escapes the HTML
// characters in the text of v.
func (c *context) escaped(v any) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(c.text(html.EscapeString(c.str(v))))
}

// unwrap returns the text of v if v is markup, and v otherwise.
func unwrap(v any) any {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// textOf returns the text of a string or of markup.
func textOf(v any) (s string, ok bool) {
	s, ok = unwrap(v).(string)
	return s, ok
}

// asMarkup turns a string, or the strings of a list, into markup. Other values
// are returned unchanged.
func asMarkup(v any) any {
	switch v := v.(type) {
	case string:
		return markup(v)
	case *list:
		out := &list{items: make([]any, len(v.items)), tuple: v.tuple}
		for i, x := range v.items {
			out.items[i] = asMarkup(x)
		}
		return out
	}
	return v
}

// asKindOf returns v, converted to markup if the argument model is markup.
func asKindOf(model, v any) any {
	if _, ok := model.(markup); ok {
		return asMarkup(v)
	}
	return v
}

// keepKind returns a function that calls f and converts the result to markup if the operand v is markup.
func keepKind(f function) function {
	return func(c *context, v any, a *args) any { return asKindOf(v, f(c, v, a)) }
}

// part returns the text of x for insertion into v. It escapes the text if v is markup.
func (c *context) part(v, x any) string {
	if _, ok := v.(markup); ok {
		return string(c.escaped(x))
	}
	return c.str(x)
}
