package data

import (
	"cmp"
	"fmt"
	"hash/crc32"
)

// Outcome says how an episode ended. Every episode has exactly one.
type Outcome string

// The outcomes. Success and Done both come from the environment: Success when
// its reward reaches the environment's success threshold, Done when it ended
// the episode otherwise. OverlongPrompt is a task that is left out because its
// first prompt is too long; the last three are infrastructure failures. Such an
// episode never enters an update.
const (
	Success      Outcome = "success"
	Done         Outcome = "done"
	TurnLimit    Outcome = "turn_limit"
	ContextLimit Outcome = "context_limit"
	ParseLimit   Outcome = "parse_limit"

	OverlongPrompt Outcome = "overlong_prompt"

	EnvError    Outcome = "env_error"
	EngineError Outcome = "engine_error"
	Cancelled   Outcome = "cancelled"
)

// Trainable reports whether an episode with this outcome may become a gradient.
func (o Outcome) Trainable() bool {
	switch o {
	case OverlongPrompt, EnvError, EngineError, Cancelled, "":
		return false
	}
	return true
}

// Message is one message of a conversation. Loss is nil where the data does
// not say; a false Loss keeps an assistant message out of the SFT loss.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Loss    *bool  `json:"loss,omitempty"`
}

// NoIndex is the Index of a conversation that is no known task: it can be
// learned from, but not played.
const NoIndex = -1

// Task is one thing to attempt: an environment and a start state, with what
// the data row carried beside them.
type Task struct {
	ID           string    `json:"id"`              // item id, such as "textcraft_286" or "maze_3"
	Env          string    `json:"env"`             // registered environment name
	Label        string    `json:"label,omitempty"` // of the table it was listed in, where that has a name of its own
	Index        int       `json:"index"`           // the integer handed to the environment's reset, or NoIndex
	Prompt       []Message `json:"prompt,omitempty"`
	Conversation []Message `json:"conversation,omitempty"` // recorded expert episode, roles system, user, assistant
	GroundTruth  string    `json:"ground_truth,omitempty"`
	Source       string    `json:"data_source,omitempty"` // of the row, where it is not the environment
}

// Table is the name by which a run tells apart whose task it is: the label, or
// else the environment.
func (t Task) Table() string { return cmp.Or(t.Label, t.Env) }

// Exchange is one HTTP request to an environment server and its reply.
type Exchange struct {
	// Server is the address of the server, without credentials; "" in dumps of
	// versions that did not keep it.
	Server string `json:"server,omitempty"`
	Method string `json:"method"`
	Path   string `json:"path"` // with the query string, without scheme and host
	Body   string `json:"body"`
	Status int    `json:"status"` // 0 if no reply came
	// Sent says, where no reply came, that some of the request may have left:
	// a step is then not sent again.
	Sent   bool    `json:"sent,omitempty"`
	Reply  string  `json:"reply"`
	Millis float64 `json:"ms"`
	Err    string  `json:"error,omitempty"`
	Sum    uint32  `json:"sum,omitempty"` // Checksum as it was recorded; 0: not taken
}

// Checksum is the CRC-32 (IEEE) of what was said, which shows a change in parts
// of a reply that no client reads. It is never 0.
func (x *Exchange) Checksum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%q %q %q %d %q", x.Method, x.Path, x.Body, x.Status, x.Reply)
	return max(1, h.Sum32())
}

// Turn is one reply of the model and what the environment made of it.
type Turn struct {
	Start       int     `json:"start"` // Episode.Tokens[Start:End] are the sampled ids
	End         int     `json:"end"`
	Text        string  `json:"text"`
	Action      string  `json:"action"`
	Parsed      bool    `json:"parsed"`            // whether the format found an action
	Refused     bool    `json:"refused,omitempty"` // the environment's client found none and sent nothing
	Stop        string  `json:"stop"`              // why generation stopped: eos, stop_string, length, context
	Observation string  `json:"observation"`
	Truncated   bool    `json:"truncated,omitempty"` // the model saw a shortened Observation
	Reward      float64 `json:"reward"`
	// Unjudged says that the environment answered nothing to this reply: the
	// context cut it, or the episode failed before. Its Reward is nobody's.
	// Dumps of versions that did not tell read as if all were judged.
	Unjudged  bool    `json:"unjudged,omitempty"`
	Done      bool    `json:"done"`
	GenMillis float64 `json:"gen_ms"`
	EnvMillis float64 `json:"env_ms"`
	// Kept are the tokens that top-k and top-p left of the vocabulary, for each
	// sampled token: LogProbs are of the distribution over these. Nil without
	// top-k and top-p, and in dumps of versions that did not keep it.
	Kept []TokenSet `json:"kept,omitempty"`
	// Prompt is what the model was shown, where the format wrote it anew for
	// this turn and so began a context with it.
	Prompt []Message `json:"prompt,omitempty"`
}

// Invalid reports whether the environment was given no valid action: the reply
// held none, or the client refused it.
func (t *Turn) Invalid() bool { return !t.Unjudged && (!t.Parsed || t.Refused) }

// Episode is one played episode, token by token. Tokens, Mask and LogProbs
// have equal lengths; LogProbs is 0 where Mask is 0. Messages is what was said
// by both sides, in order, whatever part of it a prompt repeated.
type Episode struct {
	Task   Task   `json:"task"`
	UID    string `json:"uid"`    // group key: episodes of one task in one step share it
	Sample int    `json:"sample"` // 0..group_size-1
	Seed   uint64 `json:"seed"`
	// Wave is the number, from 1, of the set of WaveSize episodes that shared
	// their batches under a deterministic engine; 0 elsewhere.
	Wave        int    `json:"wave,omitempty"`
	WaveSize    int    `json:"wave_size,omitempty"`
	Instruction string `json:"instruction,omitempty"` // what the first message says before the first observation
	// FirstObservation is what the environment answered to its reset, as it
	// sent it; "" in dumps of versions that did not keep it.
	FirstObservation string `json:"first_observation,omitempty"`
	PromptTruncated  bool   `json:"prompt_truncated,omitempty"` // the model saw a shortened FirstObservation
	// Server is the address of the server that the episode ended on; "" in dumps
	// of versions that did not keep it.
	Server    string     `json:"server,omitempty"`
	Tokens    []int32    `json:"ids"`
	Mask      []uint8    `json:"mask"`     // 1 exactly on sampled tokens
	LogProbs  []float32  `json:"logprobs"` // natural log, under the temperature, top-k and top-p of sampling
	Contexts  []int      `json:"contexts"` // where in Tokens each context begins; empty: there is one, which only grew
	Turns     []Turn     `json:"turns"`
	Messages  []Message  `json:"messages"`
	Exchanges []Exchange `json:"exchanges,omitempty"`
	// Created are the exchanges that made the environment instance, where it
	// had been made for an earlier episode; else they begin Exchanges.
	Created []Exchange `json:"created,omitempty"`
	Reward  float64    `json:"reward"` // the environment's signal, before scoring
	// Cumulative says that the turns' rewards are running scores of the episode.
	Cumulative    bool    `json:"cumulative,omitempty"`
	Outcome       Outcome `json:"outcome"`
	Err           string  `json:"error,omitempty"`
	WeightVersion int64   `json:"weight_version"`
	Attempts      int     `json:"attempts"`          // 1 + retries after infrastructure failures
	Replays       int     `json:"replays,omitempty"` // lost instances that another took the place of
	Millis        float64 `json:"ms"`
}

// SampledTokens counts the tokens the model produced.
func (e *Episode) SampledTokens() int {
	n := 0
	for _, m := range e.Mask {
		n += int(m)
	}
	return n
}

// ForgetIDs takes out the token ids with all that counts them. It is for
// episodes of an engine that has no vocabulary: its ids are no model's. What
// was said stays, in Turns and Messages.
func (e *Episode) ForgetIDs() {
	e.Tokens, e.Mask, e.LogProbs, e.Contexts = nil, nil, nil, nil
	for i := range e.Turns {
		e.Turns[i].Start, e.Turns[i].End = 0, 0
	}
}
