package main

// Job is a piece of work that both sides run and time. A peer reads it as
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

	// Ragged lets the tokens of the rows, in prefill and train, rise evenly from Shortest to Tokens.
	Ragged   bool `json:"ragged,omitempty"`
	Shortest int  `json:"shortest,omitempty"` // 0: 16

	// Fewest lets the turns of the conversations go round from Fewest to Turns. 0: every conversation has Turns turns.
	Fewest int `json:"fewest,omitempty"`

	// Form names the way in which a peer does the job, if it has several.
	Form string `json:"form,omitempty"`

	// Master lets our side train float32 weights and compute with a copy of them in the run's type, as an update does.
	Master bool `json:"master,omitempty"`

	// Temperature lets our side sample at this temperature. 0: greedy.
	Temperature float32 `json:"temperature,omitempty"`

	// Int8 lets our side sample with int8 copies of the weights, in all jobs of the run.
	Int8 bool `json:"int8,omitempty"`

	// Eager lets our side decode without CUDA graphs, in all jobs of the run.
	Eager bool `json:"eager,omitempty"`
}

// The kinds of jobs. In all of them every token is random, sampling is greedy without Temperature, and nothing stops early, so that both
// sides do the same amount of work.
const (
	Prefill = "prefill" // put Batch prompts of Tokens tokens into a KV cache, and sample one token after each prompt
	Decode  = "decode"  // sample New tokens after Context cached tokens, in Batch rows at once
	Turns   = "turns"   // run Batch conversations of Turns turns, each with a KV cache
	Train   = "train"   // one step on Batch rows of Tokens tokens: mean token loss, backward, clipping, AdamW
)

// Units returns the amount of work of one run and its unit.
func (j Job) Units() (n int, unit string) {
	switch j.Kind {
	case Decode:
		return j.Batch * j.New, "tokens/s"
	case Turns:
		return sum(j.played()), "turns/s"
	}
	return sum(j.lengths()), "tokens/s"
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// lengths returns the tokens of every row in prefill and train.
func (j Job) lengths() []int {
	list := make([]int, j.Batch)
	for row := range list {
		list[row] = j.Tokens
		if j.Ragged && j.Batch > 1 {
			list[row] = j.shortest() + row*(j.Tokens-j.shortest())/(j.Batch-1)
		}
	}
	return list
}

func (j Job) shortest() int {
	if j.Shortest == 0 {
		return 16
	}
	return j.Shortest
}

// played returns the turns of every conversation.
func (j Job) played() []int {
	list := make([]int, j.Batch)
	for row := range list {
		list[row] = j.Turns
		if j.Fewest > 0 {
			list[row] = j.Fewest + row%(j.Turns-j.Fewest+1)
		}
	}
	return list
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
