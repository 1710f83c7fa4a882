package chat

import "html"

// markup is a string made by the filters safe and escape, markupsafe's Markup.
// Templates render without autoescape, so printing and '~' leave it as it is.
// '+', format, join and replace escape the plain strings that they put into
// one, as in transformers.
type markup string

// escaped returns v as markup: unchanged if it is markup, otherwise its text
// with the characters of HTML escaped.
func (c *context) escaped(v any) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(c.text(html.EscapeString(c.str(v))))
}

// unwrap returns v, or its text if v is markup.
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

// asKindOf returns v, as markup if model is markup.
func asKindOf(model, v any) any {
	if _, ok := model.(markup); ok {
		return asMarkup(v)
	}
	return v
}

// keepKind returns f with a result of markup when it is applied to markup.
func keepKind(f function) function {
	return func(c *context, v any, a *args) any { return asKindOf(v, f(c, v, a)) }
}

// markupMethod returns the method of markup that corresponds to the method f
// of strings. Arguments that become part of the text are escaped: all of
// format's, the items of join and the replacement of replace.
func markupMethod(name string, f function) function {
	return func(c *context, v any, a *args) any {
		escape := func(x any) any { return string(c.escaped(x)) }
		if name == "join" {
			escape = func(x any) any {
				out := listOf()
				for _, item := range c.iterate(x) {
					out.items = append(out.items, string(c.escaped(item)))
				}
				return out
			}
		}
		escapes := func(i int, key any) bool {
			return name == "format" || name == "join" && (i == 0 || key == "iterable") || name == "replace" && (i == 1 || key == "new")
		}
		b := &args{name: a.name, pos: append([]any(nil), a.pos...)}
		for i, x := range b.pos {
			if escapes(i, nil) {
				b.pos[i] = escape(x)
			}
		}
		for _, e := range a.kw.entries {
			x := e.value
			if escapes(-1, e.key) {
				x = escape(x)
			}
			b.kw.set(e.key, x)
		}
		return asMarkup(f(c, string(v.(markup)), b))
	}
}
