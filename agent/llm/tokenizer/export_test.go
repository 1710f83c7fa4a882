package tokenizer

import "testing"

// For the tests outside of the package, which read GGUF files.
type (
	Goldens    = goldens
	GoldenCase = goldenCase
)

var (
	CheckGoldens = checkGoldens
	ReadJSON     = readJSON
	Digest       = digest
)

// CheckCases compares the ids of every text.
func (g *goldens) CheckCases(t *testing.T, tok *Tokenizer) { g.checkCases(t, tok) }
