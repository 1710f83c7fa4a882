package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
)

// TestHostile checks that Parse or Render returns an *Error if a template exceeds a bound.
func TestHostile(t *testing.T) {
	deep := func(open, middle, closing string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
	}
	for name, src := range map[string]string{
		"loops":            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"output":           "{% for a in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
		"doubling string":  "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"doubling list":    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"joined":           "{{ range(99999) | join('x' * 1000000) }}",
		"replaced":         "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
		"indented":         "{{ ('a\n' * 1000000) | indent(1000000) }}",
		"nested value":     "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"nested equality":  "{% set ns = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"nested JSON":      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}",
		"shared value":     "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"macro recursion":  "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"macro tree":       "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(50) }}",
		"deep parentheses": "{{ " + deep("(", "1", ")", 5000) + " }}",
		"deep lists":       "{{ " + deep("[", "", "]", 5000) + " }}",
		"deep signs":       "{{ " + strings.Repeat("-", 5000) + "1 }}",
		"deep nots":        "{{ " + strings.Repeat("not ", 5000) + "1 }}",
		"deep blocks":      deep("{% if 1 %}", "", "{% endif %}", 5000),
		"deep elses":       "{{ " + strings.Repeat("1 if 0 else ", 5000) + "1 }}",
		"power":            "{{ 9 ** 9 ** 9 }}",
		"overflow":         "{{ 9223372036854775807 + 1 }}",
		"huge number":      "{{ 99999999999999999999 }}",
		"too long":         strings.Repeat("x", maxSource+1),
		"not UTF-8":        "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse(src)
			if err == nil {
				_, err = tmpl.Render(Input{})
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("error %v, want an *Error", err)
			}
		})
	}
}

// TestHostileRereading checks that reading a string of 8 MB forty times exceeds
// the limit of steps.
func TestHostileRereading(t *testing.T) {
	for _, expr := range []string{
		"x.isspace()", "x.isdigit()", "x.isalpha()", "x.isalnum()", "x.islower()", "x.isupper()", "x.find('b')", "x.rfind('b')",
		"x.count('b')", "x.count('')", "x.startswith('b')", "x.endswith(y)", "x.startswith((y, y))", "x.removeprefix(y)", "x.removesuffix('b')", "'b'.replace('a', new=x)",
		"x.strip('ab')", "x.split('b')", "x.splitlines()", "x is lower", "x is upper", "x is sameas y", "x == y", "x != y", "x < y",
		"x is eq(y)", "x in [y]", "[y].index(x)", "[y].count(x)", "'b' in x", "x in d", "d[x]", "d.get(x)", "x[0]", "x[:1]", "x | length",
		"x | int", "x | float", "x | first", "x | tojson", "[x] | string", "[x, y] | min", "[x, y] | sort", "[x, y] | unique",
		"[x] | map('length')", "[x] | select('lower')", "x | upper", "x.title()", "x | trim",
	} {
		t.Run(expr, func(t *testing.T) {
			src := "{% set x = 'a' * 8000000 %}{% set y = 'a' * 7999999 ~ 'a' %}{% set d = {y: 1} %}" +
				"{% for i in range(40) %}{% if " + expr + " %}{% endif %}{% endfor %}"
			tmpl, err := Parse(src)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tmpl.Render(Input{}); err == nil || !strings.Contains(err.Error(), "steps") {
				t.Errorf("error %v, want one that contains \"steps\"", err)
			}
		})
	}
}

// TestLongChains checks that the parser handles long chains of operators without recursion.
func TestLongChains(t *testing.T) {
	for name, src := range map[string]string{
		"sum":     "{{ 0" + strings.Repeat("+1", 50_000) + " }}",
		"filters": "{{ 50000" + strings.Repeat("|abs", 40_000) + " }}",
		"items":   "{% set x = 50000 %}{{ x" + strings.Repeat(" if 1", 40_000) + " }}",
	} {
		tmpl, err := Parse(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := tmpl.Render(Input{}); err != nil || got != "50000" {
			t.Errorf("%s: got %q, %v; want \"50000\"", name, got, err)
		}
	}
}

// TestErrorLines checks the lines and the messages of errors.
func TestErrorLines(t *testing.T) {
	for src, want := range map[string]string{
		"a\n{{ x | nope }}":                                  "chat template line 2: filter 'nope' is not supported",
		"a\n\n{% if x is nope %}{% endif %}":                 "chat template line 3: test 'nope' is not supported",
		"{% nope %}":                                         "chat template line 1: tag 'nope' is not supported here",
		"{{ 1 }}\n{{ nope(1) }}":                             "chat template line 2: function 'nope' is not known",
		"{{ 1 }}\n{{\n x.y.z }}":                             "chat template line 3: 'x' is undefined",
		"{% if 1 %}\n":                                       "chat template line 1: the block opened here has no 'endif'",
		"\n{{ 'a' + 1 }}":                                    "chat template line 2: '+' does not work with string and integer",
		"\n\n{{ raise_exception('no roles') }}":              "chat template line 3: the template refuses this conversation: no roles",
		"{{ 'x'.startswith() }}":                             `chat template line 1: .startswith needs its argument "prefix"`,
		"{{ 'x' | trim(1, 2) }}":                             "chat template line 1: filter trim takes at most 1 arguments, not 2",
		"{% for x in [1] %}\n{{ x.y.z }}{% endfor %}":        "chat template line 2: 'y' of a integer is undefined",
		"{% macro m(a) %}\n{{ a.b }}{% endmacro %}{{ m() }}": "chat template line 2: parameter 'a' of macro m is undefined",
		"{% for x in y recursive %}{% endfor %}":             "chat template line 1: recursive loops are not supported",
		"{{ strftime_now('%Q') }}":                           "chat template line 1: strftime_now: the directive %Q is not supported",
	} {
		tmpl, err := Parse(src)
		if err == nil {
			_, err = tmpl.Render(Input{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %q", src, err, want)
		}
	}
}

func TestRenderConcurrently(t *testing.T) {
	tmpl, err := Parse("{% set x | upper %}{{ s }}{% endset %}{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x) }}{% for i in range(3) %}{{ loop.index }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, s := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			for range 100 {
				got, err := tmpl.Render(Input{Vars: map[string]any{"s": s}})
				if want := strings.ToUpper(s) + "123"; err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestBadInput(t *testing.T) {
	tmpl, err := Parse("{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(Input{Vars: map[string]any{"x": make(chan int)}}); err == nil {
		t.Error("a channel as variable: no error")
	}
	got, err := tmpl.Render(Input{Vars: map[string]any{"x": map[string]any{"b": []int{1}, "a": "é"}}})
	if want := "{'a': 'é', 'b': [1]}"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", "{", "[1] 2", strings.Repeat("[", 200)} {
		if _, err := tmpl.Render(Input{Vars: map[string]any{"x": json.RawMessage(bad)}}); err == nil {
			t.Errorf("JSON %.10q: no error", bad)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	var g struct{ Cases, Whitespace []microCase }
	readJSON(f, "micro.json", &g)
	for _, c := range append(g.Cases, g.Whitespace[:20]...) {
		f.Add(c.Src)
	}
	vars := map[string]any{"xs": []int{1, 2}, "s": "text é", "d": map[string]any{"a": 1}, "n": nil}
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := Parse(src)
		if err != nil {
			return
		}
		first, err1 := tmpl.Render(Input{Vars: vars})
		second, err2 := tmpl.Render(Input{Vars: vars})
		if (err1 == nil) != (err2 == nil) || err1 == nil && first != second && !strings.Contains(src, "strftime_now") {
			t.Errorf("two renderings differ: %q, %v and %q, %v", first, err1, second, err2)
		}
	})
}
