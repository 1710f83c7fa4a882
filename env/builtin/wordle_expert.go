package builtin

// WordleExpert returns guesses that solve the game of seed, with spaces between the
// letters as the instruction requires. The game's draws depend on the guesses, so
// WordleExpert plays the game and searches depth-first over the words that are still possible.
// It returns nil if no six guesses solve the game.
func WordleExpert(v *Vocabulary, seed int64) []string {
	guesses := solve(v, seed, nil)
	if guesses == nil {
		return nil
	}
	for i, w := range guesses {
		guesses[i] = w[:1] + " " + w[1:2] + " " + w[2:3] + " " + w[3:4] + " " + w[4:]
	}
	return guesses
}

// solve extends the guesses so far to a solution, or returns nil.
func solve(v *Vocabulary, seed int64, sofar []string) []string {
	g := newGuessing(v, seed)
	for _, w := range sofar {
		if _, solved, done := g.act(w); solved {
			return sofar
		} else if done {
			return nil
		}
	}
	for _, w := range g.left {
		if found := solve(v, seed, append(sofar[:len(sofar):len(sofar)], w)); found != nil {
			return found
		}
	}
	return nil
}
