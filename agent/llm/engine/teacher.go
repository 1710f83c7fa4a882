package engine

// Teacher decides what a backend samples (teacher forcing): a recorded episode
// is played again token by token, and at every token the sampler says what it
// would have drawn. It is called by the scheduler's goroutine.
type Teacher interface {
	// Say returns the token of a draw; ok is false where the sampler decides.
	Say(d Draw) (token int32, ok bool)
	// Differs is told of a draw that would have been another token. margin is
	// by how much the other one won: about the float noise of the logits where
	// it is a matter of chance.
	Differs(d Draw, said, drawn int32, margin float64)
}
