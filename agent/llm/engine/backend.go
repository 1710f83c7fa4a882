package engine

import (
	"context"
	"hash/fnv"
)

// SeqID identifies a sequence in a backend. A scheduler never reuses a SeqID.
type SeqID int64

// Backend runs the model for a Scheduler, which calls Step, Drop, Reserve and Release one at
// a time, and Step and Drop never during Exclusive. Any goroutine may call Version at any time.
type Backend interface {
	// Step appends the tokens of every Work to its sequence and samples one
	// token for each Work with Sample set. The result has one entry per Work,
	// in order; entries of Works without Sample are ignored.
	//
	// A new sequence begins at Pos 0, or with the first Pos tokens of the sequence Work.From.
	// A Pos below the length of a sequence first truncates the sequence to Pos tokens. After an error the
	// scheduler drops the batch's sequences, so the backend may leave them incomplete.
	Step(ctx context.Context, batch []Work) ([]Sampled, error)
	// Drop frees the memory of a sequence. An unknown sequence is ignored.
	Drop(seq SeqID)
	// Release frees the memory of the KV cache. The scheduler has dropped all sequences. The next
	// Step reserves the memory again. It does nothing if the memory is free.
	Release(ctx context.Context) error
	// Reserve reserves the memory that Release has freed. It does nothing if it is reserved.
	Reserve(ctx context.Context) error
	// Capacity returns the number of tokens for which the KV cache has space.
	// The scheduler calls it once.
	Capacity() int
	// BlockSize returns the number of tokens per block, the unit of memory. The
	// scheduler calls it once, and never uses more than Capacity/BlockSize
	// blocks over all sequences.
	BlockSize() int
	// Version returns the version of the weights that the next Step uses. The
	// scheduler recomputes KV of other versions.
	Version() int64
}

// Work is one sequence's share of a batch: a decode step (one token) or a
// chunk of prefill.
type Work struct {
	Seq         SeqID
	Tokens      []int32 // tokens to append at Pos; valid only during Step
	Pos         int     // number of the sequence's tokens that are already in the backend
	From        SeqID   // if not 0, the new sequence copies the first Pos tokens of this sequence
	Sample      bool    // sample the token after the last of Tokens
	Draw        Draw    // key of the draw, if Sample is set
	Temperature float32 // > 0, also if Greedy
	Greedy      bool
	TopP        float32 // in (0, 1]; 1 means off
	TopK        int     // 0 means off
	Top         int     // number of most probable tokens to report; 0 means none
}

// Draw is the key of one random draw. The noise of a draw depends only on this
// key and the token id.
type Draw struct {
	Seed     uint64 // the session's Key.Seed
	Task     uint64 // TaskHash of the session's Key.Task
	Sample   int    // the session's Key.Sample
	Turn     int    // Params.Turn
	Position int    // index of the drawn token in its sequence
}

// Sampled is a sampled token with its log-prob under the temperature, top-k and
// top-p.
type Sampled struct {
	Token   int32
	LogProb float32
	Kept    []int32 // tokens that top-k and top-p kept, ascending; nil means all
	// Top has the Work.Top most probable tokens, the most probable first, equally
	// probable ones by id. It has fewer if top-k and top-p kept fewer.
	Top []Candidate
}

// TaskHash returns the FNV-1a hash of a task id. The hash identifies the task in a
// Draw. It must never change, because it is part of the seed of recorded episodes.
func TaskHash(task string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(task)) // never fails
	return h.Sum64()
}

// Mix returns the output of SplitMix64 for one step from state x (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, fig. 17).
// It is a bijection in which each output bit depends on all input bits.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Teacher replaces sampled tokens by recorded tokens (teacher forcing), so that
// a recorded episode is replayed token by token. The scheduler's goroutine
// calls all methods of a Teacher.
type Teacher interface {
	// Recorded returns the recorded token of a draw. If ok is false, the
	// scheduler uses the sampler's token.
	Recorded(d Draw) (token int32, ok bool)
	// Differs is called if the sampler did not draw the recorded token. margin is the
	// difference between the scores of the two tokens. If the margin is as small as
	// the rounding of the logits, rounding can be the reason for the difference.
	Differs(d Draw, recorded, drawn int32, margin float64)
}
