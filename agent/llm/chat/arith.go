package chat

import (
	"errors"
	"math"
	"math/bits"
	"strings"
)

var errOverflow = errors.New("integer overflow")

// binary computes an arithmetic operation with Python's rules.
func (c *context) binary(op string, a, b any) (any, error) {
	if op == "~" {
		x, err := c.str(a)
		if err != nil {
			return nil, err
		}
		y, err := c.str(b)
		if err != nil {
			return nil, err
		}
		return c.text(x + y)
	}
	fa, aInt, ia, aNum := number(a)
	fb, bInt, ib, bNum := number(b)
	if aNum && bNum {
		if aInt && bInt && op != "/" {
			return integers(op, ia, ib)
		}
		return floats(op, fa, fb)
	}
	switch x := unwrap(a).(type) {
	case string:
		if _, ok := textOf(b); ok && op == "+" {
			return c.concat(a, b)
		}
		if bInt && op == "*" {
			v, err := c.repeat(x, ib)
			return asKindOf(a, v), err
		}
	case *list:
		if y, ok := b.(*list); ok && op == "+" && x.tuple == y.tuple {
			return c.joinLists(x.tuple, x.items, y.items)
		}
		if bInt && op == "*" {
			return c.repeatList(x, ib)
		}
	}
	if aInt && op == "*" {
		switch y := unwrap(b).(type) {
		case string:
			v, err := c.repeat(y, ia)
			return asKindOf(b, v), err
		case *list:
			return c.repeatList(y, ia)
		}
	}
	return nil, operandErr(op, a, b)
}

// concat is a + b for strings: markup if one of them is, with the other one
// escaped.
func (c *context) concat(a, b any) (any, error) {
	x, xPlain := a.(string)
	y, yPlain := b.(string)
	if xPlain && yPlain {
		return c.text(x + y)
	}
	m, err := c.escaped(a)
	if err != nil {
		return nil, err
	}
	n, err := c.escaped(b)
	if err != nil {
		return nil, err
	}
	v, err := c.text(string(m + n))
	return asMarkup(v), err
}

func (c *context) joinLists(tuple bool, parts ...[]any) (any, error) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > maxItems {
		return nil, errMany
	}
	out := make([]any, 0, n)
	for _, p := range parts {
		out = append(out, p...)
	}
	return &list{items: out, tuple: tuple}, c.spend(n)
}

func (c *context) repeat(s string, n int64) (any, error) {
	if n <= 0 || s == "" {
		return "", nil
	}
	if n > maxString || n*int64(len(s)) > maxString {
		return nil, errLong
	}
	return c.text(strings.Repeat(s, int(n)))
}

func (c *context) repeatList(l *list, n int64) (any, error) {
	n = max(n, 0)
	if len(l.items) == 0 {
		n = 0
	}
	if n > maxItems || n*int64(len(l.items)) > maxItems {
		return nil, errMany
	}
	parts := make([][]any, n)
	for i := range parts {
		parts[i] = l.items
	}
	return c.joinLists(l.tuple, parts...)
}

func integers(op string, a, b int64) (any, error) {
	switch op {
	case "+":
		if s := a + b; (s > a) == (b > 0) {
			return s, nil
		}
		return nil, errOverflow
	case "-":
		if s := a - b; (s < a) == (b > 0) {
			return s, nil
		}
		return nil, errOverflow
	case "*":
		return multiply(a, b)
	case "//", "%":
		if b == 0 {
			return nil, errZero
		}
		if a == math.MinInt64 && b == -1 {
			return nil, errOverflow
		}
		q, r := a/b, a%b
		if r != 0 && (r < 0) != (b < 0) { // Python rounds down
			q, r = q-1, r+b
		}
		if op == "//" {
			return q, nil
		}
		return r, nil
	}
	if b < 0 { // **
		if a == 0 {
			return nil, errZero
		}
		return math.Pow(float64(a), float64(b)), nil
	}
	if a >= -1 && a <= 1 && b > 1 {
		b = 2 + b%2
	}
	var out any = int64(1)
	for range min(b, 64) {
		var err error
		if out, err = multiply(out.(int64), a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func multiply(a, b int64) (any, error) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > math.MaxInt64 {
		return nil, errOverflow
	}
	return a * b, nil
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func floats(op string, a, b float64) (any, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		return math.Pow(a, b), nil
	}
	if b == 0 {
		return nil, errZero
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r, nil
}
