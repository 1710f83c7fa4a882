package chat

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// binary computes an arithmetic operation with Python's rules.
func (c *context) binary(op string, a, b any) any {
	if op == "~" {
		return c.text(c.str(a) + c.str(b))
	}
	fa, aInt, ia, aNum := number(a)
	fb, bInt, ib, bNum := number(b)
	if aNum && bNum {
		if aInt && bInt && op != "/" {
			return c.integers(op, ia, ib)
		}
		return c.floats(op, fa, fb)
	}
	switch {
	case op == "*" && bInt:
		if v, ok := c.repeat(a, ib); ok {
			return v
		}
	case op == "*" && aInt:
		if v, ok := c.repeat(b, ia); ok {
			return v
		}
	case op == "+":
		if v, ok := c.concat(a, b); ok {
			return v
		}
	}
	panic(c.operandError(op, a, b))
}

// signed applies a sign to a number.
func (c *context) signed(op string, v any) any {
	f, isInt, i, ok := number(v)
	switch {
	case !ok:
		panic(c.operandError(op, v))
	case op == "+" && isInt:
		return i
	case op == "+":
		return f
	case isInt:
		return -i
	}
	return -f
}

// operandError returns an error for the operands vs, whose types the operator
// op does not support.
func (c *context) operandError(op string, vs ...any) *Error {
	c.defined(vs...)
	names := make([]string, len(vs))
	for i, v := range vs {
		names[i] = typeName(v)
	}
	return c.errorf("'%s' does not work with %s", op, strings.Join(names, " and "))
}

func (c *context) compareOp(op string, a, b any) bool {
	switch op {
	case "==":
		return c.equal(a, b, 0)
	case "!=":
		return !c.equal(a, b, 0)
	case "in":
		return c.contains(b, a)
	case "not in":
		return !c.contains(b, a)
	}
	c.defined(a, b)
	n := c.compare(a, b, 0)
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	}
	return n >= 0
}

// concat returns a + b for two strings or two lists. If one of the strings is
// markup, the other one is escaped and the result is markup.
func (c *context) concat(a, b any) (any, bool) {
	switch x := a.(type) {
	case *list:
		y, ok := b.(*list)
		if !ok || x.tuple != y.tuple {
			return nil, false
		}
		n := len(x.items) + len(y.items)
		c.checkItems(n)
		c.spend(n)
		return &list{items: slices.Concat(x.items, y.items), tuple: x.tuple}, true
	case string:
		if y, ok := b.(string); ok {
			return c.text(x + y), true
		}
	}
	_, aText := textOf(a)
	_, bText := textOf(b)
	if !aText || !bText {
		return nil, false
	}
	return markup(c.text(string(c.escaped(a) + c.escaped(b)))), true
}

// repeat returns a string or list repeated n times.
func (c *context) repeat(v any, n int64) (any, bool) {
	n = max(n, 0)
	if l, ok := v.(*list); ok {
		if len(l.items) == 0 {
			n = 0
		}
		c.checkItems(int(min(n, maxItems+1)))
		c.checkItems(int(n) * len(l.items))
		c.spend(int(n) * len(l.items))
		return &list{items: slices.Repeat(l.items, int(n)), tuple: l.tuple}, true
	}
	s, ok := textOf(v)
	if s == "" {
		n = 0
	}
	c.checkBytes(int(min(n, maxString+1)))
	c.checkBytes(int(n) * len(s))
	return asKindOf(v, c.text(strings.Repeat(s, int(n)))), ok
}

func (c *context) integers(op string, a, b int64) any {
	x, y, z := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "//", "%":
		c.nonZero(b != 0)
		rest := new(big.Int)
		z.DivMod(x, y, rest)          // Euclidean: rest >= 0
		if b < 0 && rest.Sign() > 0 { // Python rounds down
			z.Sub(z, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "%" {
			z = rest
		}
	default: // **
		if b < 0 {
			c.nonZero(a != 0)
			return math.Pow(float64(a), float64(b))
		}
		if a < -1 || a > 1 {
			y.SetInt64(min(b, 64)) // |a| >= 2, so an exponent of 64 overflows like every larger one
		}
		z.Exp(x, y, nil)
	}
	if !z.IsInt64() {
		panic(c.errorf("integer overflow"))
	}
	return z.Int64()
}

func (c *context) nonZero(ok bool) {
	if !ok {
		panic(c.errorf("division by zero"))
	}
}

func (c *context) floats(op string, a, b float64) any {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		return math.Pow(a, b)
	}
	c.nonZero(b != 0)
	switch op {
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	}
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}
