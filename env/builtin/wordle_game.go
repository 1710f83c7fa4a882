package builtin

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// This file contains the game of lmrlgym's wordle (protocol 5.6). It has no fixed
// secret: each guess is scored against a new random draw from the words that are
// consistent with the earlier feedback. The seed, the vocabulary and the guesses
// determine the game. AgentGym's Python server draws other words, so the
// same seed gives another game there.

const (
	wordleTries   = 6
	wordleInvalid = "invalid word"
	wordleSolved  = "ggggg"
)

// guessing is the state of a game.
type guessing struct {
	vocabulary *Vocabulary
	left       []string // words consistent with the feedback so far
	tries      int
	rng        *rand.Rand
}

func newGuessing(v *Vocabulary, seed int64) *guessing {
	return &guessing{vocabulary: v, left: v.words, rng: rand.New(rand.NewPCG(uint64(seed), 5))}
}

// act scores a guess. Spaces between the letters are ignored. A guess outside of the
// vocabulary gets no feedback but counts as a try.
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

// compare returns a character per letter: g for a letter in its place, y for a letter
// elsewhere in the secret, b for a letter not in the secret. Unlike in the usual
// game, two equal letters of a guess are both y even if the secret has one.
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
