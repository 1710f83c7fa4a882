package tokenizer

import (
	"encoding/json"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// TestVariants runs every option that is supported, each in a tiny tokenizer
// written and run by the reference.
func TestVariants(t *testing.T) {
	var variants []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []struct {
			Text                string
			IDs, Special, Split []int32
		}
	}
	readJSON(t, "variants.json", &variants)
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			tok, err := Parse(v.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range v.Cases {
				t.Run(c.Text, func(t *testing.T) {
					sameIDs(t, "plain", c.IDs, tok.Encode(c.Text, Options{}))
					sameIDs(t, "add special", c.Special, tok.Encode(c.Text, Options{AddSpecial: true}))
					sameIDs(t, "split special", c.Split, tok.Encode(c.Text, Options{SplitSpecial: true}))
				})
			}
		})
	}
}

// TestUnicode compares the tables over every code point with the reference's.
func TestUnicode(t *testing.T) {
	golden := map[string]json.RawMessage{}
	readJSON(t, "classes.json", &golden)
	matches := func(src string) func(rune) bool {
		p, err := compilePattern(src)
		if err != nil {
			t.Fatal(err)
		}
		return func(r rune) bool { return p.spans(nil, []rune{r})[0].match }
	}
	for name, in := range map[string]func(rune) bool{
		`\p{L}`: matches(`\p{L}`), `\p{N}`: matches(`\p{N}`), `\p{M}`: matches(`\p{M}`),
		`\p{P}`: matches(`\p{P}`), `\p{S}`: matches(`\p{S}`), `\s`: matches(`\s`),
		"digits":   isNumeric,
		"reorders": func(r rune) bool { return nfc("b\u0345"+string(r)) != "b\u0345"+string(r) },
		"changes":  func(r rune) bool { return nfc(string(r)) != string(r) },
	} {
		t.Run(name, func(t *testing.T) {
			var flat []rune
			if err := json.Unmarshal(golden[name], &flat); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			eachRune(func(r rune) {
				for len(flat) > 1 && r > flat[1] {
					flat = flat[2:]
				}
				want := len(flat) > 1 && r >= flat[0]
				if got := in(r); got != want {
					if wrong++; wrong < 20 {
						t.Errorf("U+%04X: %v, want %v", r, got, want)
					}
				}
			})
		})
	}
	t.Run("values", func(t *testing.T) {
		var want, wantPairs string
		if err := json.Unmarshal(golden["changes to"], &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(golden["recomposed"], &wantPairs); err != nil {
			t.Fatal(err)
		}
		var fast, slow, pairs []int32
		eachRune(func(r rune) {
			fast = append(fast, []rune(nfc(string(r)))...)
			slow = append(slow, []rune(slowNFC(string(r)))...)
			if d := norm.NFD.String(string(r)); len([]rune(d)) > 1 && !unicode.Is(newCombining, r) {
				pairs = append(append(pairs, r), []rune(slowNFC(d))...)
			}
		})
		if digest(fast) != want {
			t.Error("x/text normalizes some code point differently")
		}
		if digest(slow) != want {
			t.Error("slowNFC normalizes some code point differently")
		}
		if digest(pairs) != wantPairs {
			t.Error("slowNFC composes some decomposition differently")
		}
	})
}

func eachRune(f func(rune)) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == 0xD800 {
			r = 0xE000
		}
		f(r)
	}
}
