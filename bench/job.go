package main

// Job is a piece of work that both sides run and time. The peer reads it as
// JSON; fields that a kind of job does not use are 0.
type Job struct {
	Name string `json:"name"`
	Kind string `json:"kind"`

	Batch       int `json:"batch"`       // rows, or conversations
	Tokens      int `json:"tokens"`      // tokens of a row, in prefill and train
	Context     int `json:"context"`     // tokens before the first decoded token; adding them is not timed
	New         int `json:"new"`         // tokens decoded in each row or turn
	Turns       int `json:"turns"`       // turns of a conversation
	Prompt      int `json:"prompt"`      // tokens of a conversation's first message
	Observation int `json:"observation"` // tokens between two replies

	// Ragged lets the tokens of the rows, in prefill and train, rise evenly from 16 to Tokens. Only our side knows it.
	Ragged bool `json:"ragged,omitempty"`

	// Eager lets our side decode without CUDA graphs, in all jobs of the run.
	Eager bool `json:"eager,omitempty"`
}

// The kinds of jobs. In all of them every token is random, sampling is greedy
// and nothing stops early, so that both sides do the same amount of work.
const (
	Prefill = "prefill" // put Batch prompts of Tokens tokens into a KV cache, and sample one token after each prompt
	Decode  = "decode"  // sample New tokens after Context cached tokens, in Batch rows at once
	Turns   = "turns"   // run Batch conversations of Turns turns, each with a KV cache
	Train   = "train"   // one step on Batch rows of Tokens tokens: mean token loss, backward, clipping, AdamW
)

// workload returns the default jobs.
func workload() []Job {
	return []Job{
		{Name: "prefill, 4 prompts of 512", Kind: Prefill, Batch: 4, Tokens: 512},
		{Name: "decode, 1 row", Kind: Decode, Batch: 1, Context: 128, New: 64},
		{Name: "decode, 8 rows", Kind: Decode, Batch: 8, Context: 128, New: 48},
		{Name: "conversations, 8 of 4 turns", Kind: Turns, Batch: 8, Turns: 4, Prompt: 200, New: 16, Observation: 40},
		{Name: "training step, 2 rows of 512", Kind: Train, Batch: 2, Tokens: 512},
	}
}

// Units returns the amount of work of one run and its unit.
func (j Job) Units() (n int, unit string) {
	switch j.Kind {
	case Decode:
		return j.Batch * j.New, "tokens/s"
	case Turns:
		return j.Batch * j.Turns, "turns/s"
	}
	for row := range j.Batch {
		n += j.length(row)
	}
	return n, "tokens/s"
}

// length returns the tokens of a row in prefill and train.
func (j Job) length(row int) int {
	const shortest = 16
	if !j.Ragged || j.Batch < 2 {
		return j.Tokens
	}
	return shortest + row*(j.Tokens-shortest)/(j.Batch-1)
}

// context returns the largest number of tokens in a session of the job.
func (j Job) context() int {
	switch j.Kind {
	case Prefill:
		return j.Tokens + 1
	case Decode:
		return j.Context + 1 + j.New
	case Turns:
		return j.Prompt + j.Turns*(j.New+j.Observation)
	}
	return 0
}
