package mathexpr

import (
	"math"
	"math/big"
)

// Node is an expression, parsed by the function Python or LaTeX. The zero value is invalid.
type Node struct {
	op   string // "num", "var", or the operation on args
	num  *big.Rat
	name string // name of a variable
	args []*Node
}

// Variables adds the names of the variables in n to names.
func (n *Node) Variables(names map[string]bool) {
	if n.op == "var" {
		names[n.name] = true
	}
	for _, a := range n.args {
		a.Variables(names)
	}
}

// constants maps the names of constants to their values.
var constants = map[string]float64{"pi": math.Pi, "e": math.E}

var unary = map[string]func(float64) float64{
	"neg": func(x float64) float64 { return -x }, "sqrt": math.Sqrt, "abs": math.Abs, "exp": math.Exp, "ln": math.Log, "log": math.Log10,
	"sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "arcsin": math.Asin, "arccos": math.Acos, "arctan": math.Atan,
	"cot": func(x float64) float64 { return 1 / math.Tan(x) }, "sec": func(x float64) float64 { return 1 / math.Cos(x) },
	"csc": func(x float64) float64 { return 1 / math.Sin(x) },
}

var binary = map[string]func(x, y float64) float64{
	"+":    func(x, y float64) float64 { return x + y },
	"-":    func(x, y float64) float64 { return x - y },
	"*":    func(x, y float64) float64 { return x * y },
	"/":    func(x, y float64) float64 { return x / y },
	"//":   func(x, y float64) float64 { return math.Floor(x / y) },
	"^":    math.Pow,
	"root": root,
}

// root returns the n-th root of x.
func root(x, n float64) float64 {
	if x < 0 && math.Mod(n, 2) == 1 {
		return -math.Pow(-x, 1/n)
	}
	return math.Pow(x, 1/n)
}

// Float returns the value of n, or NaN or an infinity if it is undefined.
func (n *Node) Float(vars map[string]float64) float64 {
	switch n.op {
	case "num":
		x, _ := n.num.Float64()
		return x
	case "var":
		if x, ok := vars[n.name]; ok {
			return x
		}
		return math.NaN()
	case "const":
		return constants[n.name]
	}
	x := n.args[0].Float(vars)
	if f, ok := unary[n.op]; ok {
		return f(x)
	}
	return binary[n.op](x, n.args[1].Float(vars))
}

// Bounds of exact powers. Larger powers are evaluated in floating point.
const (
	maxExponent = 64
	maxBits     = 1 << 12
)

// Rat returns the value of n if it is a rational number made of the four basic
// operations and small powers.
func (n *Node) Rat() (*big.Rat, bool) {
	switch n.op {
	case "num":
		return n.num, true
	case "var", "const":
		return nil, false
	}
	var xs []*big.Rat
	for _, a := range n.args {
		x, ok := a.Rat()
		if !ok || x.Num().BitLen()+x.Denom().BitLen() > maxBits {
			return nil, false
		}
		xs = append(xs, x)
	}
	z := new(big.Rat)
	switch n.op {
	case "neg":
		return z.Neg(xs[0]), true
	case "+":
		return z.Add(xs[0], xs[1]), true
	case "-":
		return z.Sub(xs[0], xs[1]), true
	case "*":
		return z.Mul(xs[0], xs[1]), true
	case "/":
		if xs[1].Sign() == 0 {
			return nil, false
		}
		return z.Quo(xs[0], xs[1]), true
	case "^":
		return power(xs[0], xs[1])
	}
	return nil, false
}

func power(x, y *big.Rat) (*big.Rat, bool) {
	if !y.IsInt() || !y.Num().IsInt64() {
		return nil, false
	}
	k := y.Num().Int64()
	if k > maxExponent || k < -maxExponent || k <= 0 && x.Sign() == 0 {
		return nil, false
	}
	if k < 0 {
		x, k = new(big.Rat).Inv(x), -k
	}
	e := big.NewInt(k)
	return new(big.Rat).SetFrac(new(big.Int).Exp(x.Num(), e, nil), new(big.Int).Exp(x.Denom(), e, nil)), true
}
