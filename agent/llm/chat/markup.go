package chat

import "html"

// markup is a string that the filters safe and escape made, markupsafe's
// Markup. Templates render without autoescape, so printing one and '~' leave
// it as it is; '+', format, join and replace escape the plain strings that
// they put into one, as in transformers.
type markup string

// escaped is v as markup, with the characters of HTML escaped unless v is
// markup already.
func (c *context) escaped(v any) (markup, error) {
	if m, ok := v.(markup); ok {
		return m, nil
	}
	s, err := c.str(v)
	if err != nil {
		return "", err
	}
	out, err := c.text(html.EscapeString(s))
	if err != nil {
		return "", err
	}
	return markup(out.(string)), nil
}

// unwrap is v, or its text where v is markup.
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

// asMarkup turns what a method of a string returned, a string or a list of
// them, into markup. Other values stay.
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

// asKindOf is v as markup if model is markup.
func asKindOf(model, v any) any {
	if _, ok := model.(markup); ok {
		return asMarkup(v)
	}
	return v
}

// markupMethod is a method of markup: that of strings, with the texts that are
// put into the markup escaped.
func markupMethod(name string, f method[string]) method[markup] {
	return func(c *context, m markup, a *args) (any, error) {
		a, err := c.escapedArgs(name, a)
		if err != nil {
			return nil, err
		}
		v, err := f(c, string(m), a)
		return asMarkup(v), err
	}
}

// escapedArgs escapes the arguments of format, the items of join and the
// replacement of replace.
func (c *context) escapedArgs(name string, a *args) (*args, error) {
	out := &args{name: a.name, pos: append([]any(nil), a.pos...)}
	escape := func(v any) (any, error) {
		m, err := c.escaped(v)
		return string(m), err
	}
	if name == "join" {
		escape = func(v any) (any, error) {
			items, err := c.iterate(v)
			if err != nil {
				return nil, err
			}
			texts := listOf()
			for _, x := range items {
				m, err := c.escaped(x)
				if err != nil {
					return nil, err
				}
				texts.items = append(texts.items, string(m))
			}
			return texts, nil
		}
	}
	puts := func(i int, key string) bool { // whether this argument becomes part of the text
		return name == "format" || name == "join" && (i == 0 || key == "iterable") || name == "replace" && (i == 1 || key == "new")
	}
	for i, v := range out.pos {
		if puts(i, "") {
			var err error
			if out.pos[i], err = escape(v); err != nil {
				return nil, err
			}
		}
	}
	if a.kw != nil {
		out.kw = newDict()
		for _, e := range a.kw.entries {
			v, err := e.value, error(nil)
			if puts(-1, e.key.(string)) {
				if v, err = escape(v); err != nil {
					return nil, err
				}
			}
			out.kw.put(e.key.(string), v)
		}
	}
	return out, nil
}
