package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// functions are the global functions of a template.
var functions = map[string]func(c *context, a *args) (any, error){
	"range": rangeFunc,
	"namespace": func(_ *context, a *args) (any, error) {
		d, err := dictFunc(a)
		return &namespace{d}, err
	},
	"dict": func(_ *context, a *args) (any, error) {
		return dictFunc(a)
	},
	"raise_exception": func(c *context, a *args) (any, error) {
		v, err := a.bind(1, "message")
		if err != nil {
			return nil, err
		}
		msg, err := c.str(v[0])
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the template refuses this conversation: %s", msg)
	},
	"strftime_now": func(c *context, a *args) (any, error) {
		v, err := a.bind(1, "format")
		if err != nil {
			return nil, err
		}
		layout, err := strArg(v[0], "")
		if err != nil {
			return nil, err
		}
		return strftime(c.now(), layout)
	},
}

// maxRange is the longest range, the one of Jinja's sandbox.
const maxRange = 100_000

func rangeFunc(c *context, a *args) (any, error) {
	v, err := a.bind(1, "start", "stop", "step")
	if err != nil {
		return nil, err
	}
	var b [3]int
	for i, def := range [3]int{0, 0, 1} {
		if b[i], err = intArg(v[i], def); err != nil {
			return nil, err
		}
	}
	start, stop, step := b[0], b[1], b[2]
	if absent(v[1]) {
		start, stop = 0, start
	}
	if step == 0 {
		return nil, errors.New("the step of a range is zero")
	}
	out := listOf()
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out.items) == maxRange {
			return nil, fmt.Errorf("a range is longer than %d", maxRange)
		}
		out.items = append(out.items, int64(i))
	}
	return out, c.spend(len(out.items))
}

// dictFunc makes a mapping from another one and keywords.
func dictFunc(a *args) (*dict, error) {
	d := newDict()
	if len(a.pos) > 1 {
		return nil, fmt.Errorf("%s takes one mapping and keywords", a.name)
	}
	if len(a.pos) == 1 {
		from, ok := a.pos[0].(*dict)
		if !ok {
			return nil, fmt.Errorf("%s needs a mapping, not a %s", a.name, typeName(a.pos[0]))
		}
		for _, e := range from.entries {
			if err := d.set(e.key, e.value); err != nil {
				return nil, err
			}
		}
	}
	if a.kw != nil {
		for _, e := range a.kw.entries {
			d.put(e.key.(string), e.value)
		}
	}
	return d, nil
}

// strftimeLayouts maps Python's directives to Go's layouts.
var strftimeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'Z': "", 'z': "",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'e': "_2",
}

// strftime formats a time as Python's naive datetime does.
func strftime(t time.Time, format string) (any, error) {
	var sb strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			sb.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return nil, errors.New("strftime_now: the format ends in '%'")
		}
		layout, ok := strftimeLayouts[format[i]]
		switch {
		case format[i] == '%':
			sb.WriteByte('%')
		case format[i] == '-' && i+1 < len(format): // without the leading zero
			i++
			layout, ok := strftimeLayouts[format[i]]
			if !ok {
				return nil, fmt.Errorf("strftime_now: the directive %%-%c is not supported", format[i])
			}
			text := strings.TrimLeft(t.Format(layout), "0")
			if text == "" {
				text = "0"
			}
			sb.WriteString(text)
		case !ok:
			return nil, fmt.Errorf("strftime_now: the directive %%%c is not supported", format[i])
		case layout != "":
			sb.WriteString(t.Format(layout))
		}
	}
	return sb.String(), nil
}
