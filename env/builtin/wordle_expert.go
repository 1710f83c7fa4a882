package builtin

// WordleExpert gives guesses that solve seed's game with the vocabulary,
// spelled as the instruction asks for. The game's draws depend on what is
// guessed, so it plays the game: first one word after the other that is still
// possible, then, where that takes too many tries, every other line of play.
// It is nil if no six guesses solve the game.
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

// solve continues the guesses so far to a solution.
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
