package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Options configure a Scheduler. The zero value is valid if no session uses stop strings.
type Options struct {
	// ChunkTokens is the maximum number of tokens of one sequence in one batch; 0 means 256.
	ChunkTokens int
	// PrefillTokens is the maximum number of prefill tokens in one batch, over all
	// sequences; 0 means 512. Decode steps, one token each, are not counted.
	PrefillTokens int
	// ExpectTokens is the expected length of a context; 0 means no expectation.
	// Open admits as many sessions as fit at this length. The lengths of ended
	// sessions replace ExpectTokens.
	ExpectTokens int
	// NewDecoder returns a function that decodes one reply to find stop
	// strings: given the ids of the reply in order, it returns the text that
	// each id completes. If NewDecoder is nil, Params.StopStrings is an error.
	NewDecoder func() func(id int32) string
	// NoSharing computes every context from its first token. Without NoSharing
	// a context copies the keys and values of a prefix that another context has
	// computed. The copies equal recomputed values up to rounding. Deterministic
	// implies NoSharing, since sharing depends on the order of arrival.
	NoSharing bool
	// Deterministic forms batches in an order that depends only on the keys of
	// the sessions. A batch is formed when every open session has a call pending,
	// so all sessions wait for the slowest environment. A goroutine that opens a
	// session must generate with the session or close it before the goroutine
	// waits for another session, and sessions that share batches must all be open
	// before the first of them generates. Open never waits in this mode.
	Deterministic bool
}

// normalize validates o and replaces zero values by their defaults.
func (o Options) normalize() (Options, error) {
	var errs []error
	o.ChunkTokens = cmp.Or(o.ChunkTokens, 256)
	o.PrefillTokens = cmp.Or(o.PrefillTokens, 512)
	if o.ChunkTokens < 1 {
		errs = append(errs, fmt.Errorf("chunk tokens is %d, want at least 1", o.ChunkTokens))
	}
	if o.PrefillTokens < 1 {
		errs = append(errs, fmt.Errorf("prefill tokens is %d, want at least 1", o.PrefillTokens))
	}
	if o.ExpectTokens < 0 {
		errs = append(errs, fmt.Errorf("expected tokens is %d, want 0 (unknown) or more", o.ExpectTokens))
	}
	return o, errors.Join(errs...)
}

// normalize validates p and replaces zero values by their defaults.
func (p Params) normalize(canDecode bool) (Params, error) {
	var errs []error
	if p.MaxNew < 1 {
		errs = append(errs, fmt.Errorf("max new tokens is %d, want at least 1", p.MaxNew))
	}
	if p.Greedy && p.Temperature == 0 {
		p.Temperature = 1
	}
	if !(p.Temperature > 0) {
		errs = append(errs, fmt.Errorf("temperature is %g, want more than 0, or greedy sampling", p.Temperature))
	}
	p.TopP = cmp.Or(p.TopP, 1)
	if !(p.TopP > 0 && p.TopP <= 1) {
		errs = append(errs, fmt.Errorf("top-p is %g, want it in (0, 1]", p.TopP))
	}
	if p.TopK < 0 {
		errs = append(errs, fmt.Errorf("top-k is %d, want 0 (off) or more", p.TopK))
	}
	if p.Top < 0 {
		errs = append(errs, fmt.Errorf("top is %d most probable tokens, want 0 (none) or more", p.Top))
	}
	if p.Top > 0 && p.Each == nil {
		errs = append(errs, errors.New("the most probable tokens (Top) are reported to Each, which is nil"))
	}
	if len(p.StopStrings) > 0 && !canDecode {
		errs = append(errs, errors.New("stop strings need an engine with a decoder"))
	}
	if slices.Contains(p.StopStrings, "") {
		errs = append(errs, errors.New("an empty stop string would stop every reply"))
	}
	return p, errors.Join(errs...)
}
