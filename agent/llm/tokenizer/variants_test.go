package tokenizer

import (
	"encoding/json"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// TestVariants checks every supported option with a tiny tokenizer. Hugging Face's
// tokenizers library wrote the tokenizer files and the expected ids.
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

// TestUnicode checks that the Unicode tables equal the reference's tables at
// every code point of the planes in use.
func TestUnicode(t *testing.T) {
	golden := map[string]json.RawMessage{}
	readJSON(t, "classes.json", &golden)
	var every []rune
	for _, r := range [][2]rune{{0, 0xD7FF}, {0xE000, 0x33FFF}, {0xE0000, 0xE01FF}, {0x10FF00, 0x10FFFF}} {
		for c := r[0]; c <= r[1]; c++ {
			every = append(every, c)
		}
	}
	for name, in := range map[string]func(rune) bool{
		"digits":   isNumeric,
		"reorders": func(r rune) bool { return nfc("b\u0345"+string(r)) != "b\u0345"+string(r) },
		"changes":  func(r rune) bool { return nfc(string(r)) != string(r) },
		`\p{L}`:    inClass(t, `\p{L}+`, every), `\p{N}`: inClass(t, `\p{N}+`, every), `\p{M}`: inClass(t, `\p{M}+`, every),
		`\p{Lu}`: inClass(t, `\p{Lu}+`, every), `\p{Ll}`: inClass(t, `\p{Ll}+`, every), `\p{Lt}`: inClass(t, `\p{Lt}+`, every),
		`\p{Lm}`: inClass(t, `\p{Lm}+`, every), `\p{Lo}`: inClass(t, `\p{Lo}+`, every),
		`\p{P}`: inClass(t, `\p{P}+`, every), `\p{S}`: inClass(t, `\p{S}+`, every), `\s`: inClass(t, `\s+`, every),
	} {
		t.Run(name, func(t *testing.T) {
			var flat []rune
			if err := json.Unmarshal(golden[name], &flat); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for _, r := range every {
				for len(flat) > 1 && r > flat[1] {
					flat = flat[2:]
				}
				want := len(flat) > 1 && r >= flat[0]
				if got := in(r); got != want {
					if wrong++; wrong < 20 {
						t.Errorf("U+%04X: %v, want %v", r, got, want)
					}
				}
			}
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
		for _, r := range every {
			fast = append(fast, []rune(nfc(string(r)))...)
			slow = append(slow, []rune(slowNFC(string(r)))...)
			if d := norm.NFD.String(string(r)); len([]rune(d)) > 1 && !unicode.Is(newCombining, r) {
				pairs = append(append(pairs, r), []rune(slowNFC(d))...)
			}
		}
		if digest(fast) != want {
			t.Error("nfc differs from the reference at some code point")
		}
		if digest(slow) != want {
			t.Error("slowNFC differs from the reference at some code point")
		}
		if digest(pairs) != wantPairs {
			t.Error("slowNFC of some decomposition differs from the reference")
		}
	})
}

// inClass returns a function that reports whether the pattern src matches a rune. The rune must be one of the slice every, which inClass matches in one call for speed.
func inClass(t *testing.T, src string, every []rune) func(rune) bool {
	p, err := compilePattern(src)
	if err != nil {
		t.Fatal(err)
	}
	in := make(map[rune]bool)
	for _, s := range p.spans(every) {
		if s.match {
			for _, r := range every[s.from:s.to] {
				in[r] = true
			}
		}
	}
	return func(r rune) bool { return in[r] }
}
