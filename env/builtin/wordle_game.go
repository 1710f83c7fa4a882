package builtin

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// The game of lmrlgym's wordle (protocol 5.6). It has no hidden word: every
// guess is scored against a word drawn anew from those that all earlier
// answers still allow. Same seed, same vocabulary and same guesses give the
// same game. The draws are not Python's, so a seed's game is another one than
// the original server's.

const (
	wordleTries   = 6
	wordleInvalid = "invalid word"
	wordleSolved  = "ggggg"
)

// guessing is a game under way.
type guessing struct {
	vocabulary *Vocabulary
	left       []string // words that every answer so far allows
	tries      int
	rng        *rand.Rand
}

func newGuessing(v *Vocabulary, seed int64) *guessing {
	return &guessing{vocabulary: v, left: v.words, rng: rand.New(rand.NewPCG(uint64(seed), 5))}
}

// act scores a guess, whose letters may have spaces between them. A guess that
// is no word of the vocabulary is not answered but costs a try.
func (g *guessing) act(action string) (text string, solved, done bool) {
	g.tries++
	guess := strings.ReplaceAll(strings.TrimSpace(action), " ", "")
	if !g.vocabulary.known[guess] {
		return wordleInvalid, false, g.tries == wordleTries
	}
	answer := compare(guess, g.left[g.rng.IntN(len(g.left))])
	g.left = slices.DeleteFunc(slices.Clone(g.left), func(w string) bool { return compare(guess, w) != answer })
	solved = answer == wordleSolved
	return strings.Join(strings.Split(answer, ""), " ") + "\n", solved, solved || g.tries == wordleTries
}

// compare gives g for a letter in its place, y for one that the secret has
// anywhere else, b for one that it has not. Unlike in the newspaper's game a
// letter guessed twice is y twice, however often the secret has it.
func compare(guess, secret string) string {
	var b [wordLength]byte
	for i := range wordLength {
		switch {
		case guess[i] == secret[i]:
			b[i] = 'g'
		case strings.IndexByte(secret, guess[i]) >= 0:
			b[i] = 'y'
		default:
			b[i] = 'b'
		}
	}
	return string(b[:])
}
