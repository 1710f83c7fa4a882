package tokenizer

import "testing"

// Exports for the tests of package tokenizer_test, which read GGUF files.
type (
	Goldens    = goldens
	GoldenCase = goldenCase
)

var (
	CheckGoldens = checkGoldens
	ReadJSON     = readJSON
	Digest       = digest
)

// CheckCases compares the ids of every case's text with the golden ids.
func (g *goldens) CheckCases(t *testing.T, tok *Tokenizer) { g.checkCases(t, tok) }
