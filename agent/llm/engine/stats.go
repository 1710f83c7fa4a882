package engine

// Stats are counters since the scheduler started, and two gauges.
type Stats struct {
	Steps         int64 // batches run
	Rows          int64 // sequences over all batches
	MaxRows       int   // sequences in the largest batch
	PrefillTokens int64
	SharedTokens  int64 // not prefilled, but taken from a context that began alike
	DecodeTokens  int64 // tokens run one at a time
	SampledTokens int64
	Parked        int64 // times a session lost its KV to others
	ParkedTokens  int64 // tokens to be prefilled again because of it
	PeakTokens    int   // most tokens of KV reserved at once, in whole blocks
	Open          int   // sessions open now
	Active        int   // of these, with a call under way
}

// Stats returns the counters as they are now.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Open = len(s.open)
	for _, q := range s.open {
		if q.call != nil {
			st.Active++
		}
	}
	return st
}
