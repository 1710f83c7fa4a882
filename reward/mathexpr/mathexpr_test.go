package mathexpr

import (
	"math"
	"strings"
	"testing"
)

func TestPython(t *testing.T) {
	nan := math.NaN()
	for text, want := range map[string]float64{
		"4*6*1": 24, "4*6**1": 24, "-2**2": -4, "2**-1": .5, "2**3**2": 512, "7//2": 3, "-7//2": -4, "(1+2)*3-4/8": 8.5,
		" 1.5 + .5 ": 2, "1/0": math.Inf(1), "0/0": nan, "- - 3": 3, "00": 0, "10-4-3": 3, "16/4/2": 2,
		"9999999999**9999999999": math.Inf(1),
	} {
		n, err := Python(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := n.Float(nil); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%q = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "4 6", "041", "1+", "(1", "1)", "4(6)", "x", "1..2", ".", "1 = 1", strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300), strings.Repeat("1", 2000)} {
		if n, err := Python(text); err == nil {
			t.Errorf("%.40q is read as %v", text, n.Float(nil))
		}
	}
}

func TestLaTeX(t *testing.T) {
	vars := map[string]float64{"x": 3, "y": 2, "theta": 0}
	for text, want := range map[string]float64{
		`\frac{1}{2}`: .5, `\frac12`: math.NaN(), `2x`: 6, `2x^2y`: 36, `x(y+1)`: 9, `\sqrt{16}`: 4, `\sqrt[3]{-8}`: -2, `\sqrt[3]{27}`: 3,
		`2\pi`: 2 * math.Pi, `-x^2`: -9, `\left(x+y\right)^2`: 25, `3\cdot 4`: 12, `|x-5|`: 2, `\sin^2\theta+\cos^2\theta`: 1, `\ln(1)`: 0,
		`x^{-1}`: 1. / 3, `\frac{x}{y}\cdot 2`: 3, `2^{x}`: 8, `\ln e`: 1, `\lne`: 1, `2\sin\theta`: 0, `\logx`: math.Log10(3), `e^x`: math.Exp(3), `xy+1`: 7, `\frac{xy}{2}`: 3, `3-xy`: -3, `2\cdot\frac{1}{2}`: 1, `2e`: 2 * math.E,
	} {
		n, err := LaTeX(text)
		if err != nil {
			if !math.IsNaN(want) {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if got := n.Float(vars); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{`\infty`, `\sinh`, `\sinhx`, `\cdots`, `\pir`, `\sin^{-1} x`, `x=3`, `no answer`, `\text{a}`, `x_1`, `1,2`, `{`, `\`, `hello`, `2\frac{1}{2}`, `-2\dfrac{1}{2}x`, `2\,3`, `on`, `-on`, `ACB`, `|AB|`, `2xy`, `i^2`, `1+i`, `lnx+1`, `x+sin`, `2e3`, `1.5E-7`} {
		if n, err := LaTeX(text); err == nil {
			t.Errorf("%q is read as %v", text, n.Float(vars))
		}
	}
}

func TestRat(t *testing.T) {
	for text, want := range map[string]string{`\frac{1}{3}+\frac{1}{6}`: "1/2", `0.1`: "1/10", `(\frac{2}{3})^{-2}`: "9/4", `-2^2`: "-4/1"} {
		n, err := LaTeX(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := n.Rat(); !ok || got.String() != want {
			t.Errorf("%s is %v (%v), want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{`\sqrt{4}`, `x`, `\pi`, `1/0`, `0^{-1}`, `9^{9^{9}}`, `2^{\frac{1}{2}}`} {
		n, err := LaTeX(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := n.Rat(); ok {
			t.Errorf("%s is exactly %v", text, got)
		}
	}
}

func FuzzBoth(f *testing.F) {
	for _, s := range []string{"4*6**1", `\frac{1}{2}x`, `\sqrt[3]{x}`, "((1)", `\`, "|x|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, read := range []func(string) (*Node, error){Python, LaTeX} {
			if n, err := read(s); err == nil {
				n.Float(map[string]float64{"x": 1})
				n.Rat()
			}
		}
	})
}
