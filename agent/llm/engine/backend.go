package engine

import "context"

// SeqID names one sequence in a backend. IDs are never used twice by one
// scheduler.
type SeqID int64

// Backend does the model's work for a Scheduler. Step and Drop are called by
// the scheduler's goroutine alone, one at a time, and never while the
// scheduler is paused. Version may be called at any time by any goroutine.
type Backend interface {
	// Step appends the tokens of every Work to its sequence and samples where
	// asked. The result has one entry per Work, in order; entries of Works
	// that do not sample are ignored. A sequence that the backend does not
	// know begins with Pos 0. After an error the sequences of the batch are
	// dropped by the scheduler, so the backend may leave them half done. A Pos
	// below what a sequence holds cuts it to Pos tokens first, and a sequence
	// that the backend does not know may begin with the first Pos tokens of
	// another, see Work.From. Both are whole blocks.
	Step(ctx context.Context, batch []Work) ([]Sampled, error)
	// Drop frees all memory of a sequence. An unknown sequence is ignored.
	Drop(seq SeqID)
	// Capacity is the number of tokens whose keys and values fit, read once.
	Capacity() int
	// BlockSize is the granularity, in tokens, in which a sequence takes
	// memory, read once. The scheduler never asks for more than
	// Capacity/BlockSize blocks over all sequences.
	BlockSize() int
	// Version is the version of the weights that the next Step would use. KV
	// made under another version is stale and is rebuilt by the scheduler.
	Version() int64
}

// Work is one sequence's share of a batch: a decode step (one token) or a
// chunk of prefill.
type Work struct {
	Seq         SeqID
	Tokens      []int32 // to append at Pos; valid only during Step
	Pos         int     // tokens of the sequence that are already in the backend
	From        SeqID   // if it is not 0: the sequence that the first Pos tokens are to be taken from
	Sample      bool    // sample the token that follows the last of Tokens
	Draw        Draw    // key of the draw, where Sample is set
	Temperature float32 // > 0, for a greedy Work too
	Greedy      bool
	TopP        float32 // in (0, 1]; 1 is off
	TopK        int     // 0 is off
}

// Draw is the key of one random draw. With the token id it is all that the
// noise of a draw may depend on.
type Draw struct {
	Seed     uint64 // the session's Key.Seed
	Task     uint64 // TaskHash of the session's Key.Task
	Sample   int    // the session's Key.Sample
	Turn     int    // Params.Turn
	Position int    // index of the token to be drawn in its sequence
}

// Sampled is a sampled token with its log-prob under the temperature, top-k and
// top-p.
type Sampled struct {
	Token   int32
	LogProb float32
	Kept    []int32 // what top-k and top-p left, ascending; nil: everything
}

// TaskHash maps a task id to the 64 bits that stand for it in a Draw: FNV-1a
// (http://www.isthe.com/chongo/tech/comp/fnv/), which is fixed for all time,
// unlike the hashes of the standard library's maps.
func TaskHash(task string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(task); i++ {
		h ^= uint64(task[i])
		h *= 1099511628211
	}
	return h
}

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
