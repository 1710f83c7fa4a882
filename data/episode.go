package data

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
)

// Outcome is the way in which an episode ended. Every episode has exactly one.
type Outcome string

// The outcomes. An episode that the environment ended is a Success if its reward
// exceeds the environment's threshold, and Done otherwise. OverlongPrompt marks a
// task that is skipped because its first prompt is too long. EnvError, EngineError and
// Cancelled are failures of the infrastructure. These four are never trained on.
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

// Trainable reports whether an episode with this outcome may be trained on.
func (o Outcome) Trainable() bool {
	switch o {
	case OverlongPrompt, EnvError, EngineError, Cancelled, "":
		return false
	}
	return true
}

// Message is one message of a conversation. A false Loss keeps an assistant message
// out of the SFT loss; nil stands for unspecified.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Loss    *bool  `json:"loss,omitempty"`
}

// NoIndex is the Index of a conversation without a task, which can be trained on
// but not played.
const NoIndex = -1

// Task is an environment and a start state, with the other columns of a data file's row.
type Task struct {
	ID           string    `json:"id"`              // item id, such as "textcraft_286" or "maze_3"
	Env          string    `json:"env"`             // registered environment name
	Label        string    `json:"label,omitempty"` // name of the [[env]] table that lists the task, "" if it has none
	Index        int       `json:"index"`           // index for the environment's reset, or NoIndex
	Prompt       []Message `json:"prompt,omitempty"`
	Conversation []Message `json:"conversation,omitempty"` // recorded expert episode, roles system, user, assistant
	GroundTruth  string    `json:"ground_truth,omitempty"`
	Source       string    `json:"data_source,omitempty"` // data_source of the row if it differs from Env
}

// Table returns the name of the task's [[env]] table: the label, or else the
// environment.
func (t Task) Table() string { return cmp.Or(t.Label, t.Env) }

// Exchange is one HTTP request to an environment server and its reply.
type Exchange struct {
	// Server is the address of the server without credentials, "" in older dumps.
	Server string `json:"server,omitempty"`
	Method string `json:"method"`
	Path   string `json:"path"` // with the query string, without scheme and host
	Body   string `json:"body"`
	Status int    `json:"status"` // 0 if no reply came
	// Sent reports, for an exchange without a reply, that part of the request may
	// have been sent, so that a step must not be repeated.
	Sent   bool    `json:"sent,omitempty"`
	Reply  string  `json:"reply"`
	Millis float64 `json:"ms"`
	Err    string  `json:"error,omitempty"`
	Sum    uint32  `json:"sum,omitempty"` // Checksum at the time of recording; 0: none
}

// Checksum returns the CRC-32 (IEEE) of request and reply. It reveals changes in
// parts of a reply that no client reads. It is never 0.
func (x *Exchange) Checksum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%q %q %q %d %q", x.Method, x.Path, x.Body, x.Status, x.Reply)
	return max(1, h.Sum32())
}

// Turn is one reply of the model and the environment's answer to it.
type Turn struct {
	Start       int     `json:"start"` // Episode.Tokens[Start:End] are the sampled ids
	End         int     `json:"end"`
	Text        string  `json:"text"`
	Action      string  `json:"action"`
	Parsed      bool    `json:"parsed"`            // whether the format found an action
	Refused     bool    `json:"refused,omitempty"` // the environment's client rejected the reply and sent nothing
	Stop        string  `json:"stop"`              // why generation stopped: eos, stop_string, length, context
	Observation string  `json:"observation"`
	Truncated   bool    `json:"truncated,omitempty"` // the model saw a shortened Observation
	Reward      float64 `json:"reward"`
	// Unjudged marks a reply that the environment did not answer, because the context
	// limit cut the reply off or the episode failed earlier. Reward is undefined then.
	// It is false in older dumps.
	Unjudged  bool    `json:"unjudged,omitempty"`
	Done      bool    `json:"done"`
	GenMillis float64 `json:"gen_ms"`
	EnvMillis float64 `json:"env_ms"`
	// Kept holds, for each sampled token, the tokens of the vocabulary that top-k
	// and top-p kept. LogProbs refer to the distribution over these tokens. It is
	// nil without top-k and top-p, and in older dumps.
	Kept []TokenSet `json:"kept,omitempty"`
	// Prompt is the prompt of this turn if the format wrote a new one, which began
	// a context.
	Prompt []Message `json:"prompt,omitempty"`
	// Behind is the number of versions by which the weights that sampled the first token of
	// the reply are older than the episode's WeightVersion. It is 0 if no update finished
	// while the rest of the episode was played, and in older dumps.
	Behind int64 `json:"behind,omitempty"`
}

// Invalid reports whether the reply had no valid action: none was found, or the
// environment's client rejected it.
func (t *Turn) Invalid() bool { return !t.Unjudged && (!t.Parsed || t.Refused) }

// Episode is one played episode, token by token. Tokens, Mask and LogProbs have
// equal lengths; LogProbs is 0 where Mask is 0. Messages holds every message
// once, in order, even if later prompts repeated the message. The JSON form is
// a line of a dump, to which package dump adds Task and Mask.
type Episode struct {
	Task   Task   `json:"-"`
	UID    string `json:"uid"`    // group key: episodes of one task in one step share it
	Sample int    `json:"sample"` // 0..group_size-1
	Seed   uint64 `json:"seed"`
	// Wave is the number, from 1, of the set of WaveSize episodes that shared
	// batches under a deterministic engine; 0 under other engines.
	Wave        int    `json:"wave,omitempty"`
	WaveSize    int    `json:"wave_size,omitempty"`
	Instruction string `json:"instruction,omitempty"` // text of the first message before the first observation
	// FirstObservation is the environment's answer to the reset, unchanged; "" in
	// older dumps.
	FirstObservation string `json:"first_observation,omitempty"`
	PromptTruncated  bool   `json:"prompt_truncated,omitempty"` // the model saw a shortened FirstObservation
	// Server is the address of the server on which the episode ended, "" in older
	// dumps.
	Server    string     `json:"server,omitempty"`
	Tokens    []int32    `json:"ids"`
	Mask      []uint8    `json:"-"`                  // 1 exactly on sampled tokens
	LogProbs  []float32  `json:"logprobs"`           // natural log, under the temperature, top-k and top-p of sampling
	Contexts  []int      `json:"contexts,omitempty"` // first token of each context; empty: one context
	Turns     []Turn     `json:"turns"`
	Messages  []Message  `json:"messages"`
	Exchanges []Exchange `json:"exchanges"`
	// Created holds the exchanges that created the environment instance, if an earlier
	// episode used the instance too. Otherwise Exchanges begins with these exchanges.
	Created []Exchange `json:"created,omitempty"`
	Reward  float64    `json:"reward"` // the environment's signal, before scoring
	// Cumulative reports that the turns' rewards are running scores of the episode.
	Cumulative    bool    `json:"cumulative,omitempty"`
	Outcome       Outcome `json:"outcome"`
	Err           string  `json:"error,omitempty"`
	WeightVersion int64   `json:"weight_version"`    // of the weights that sampled the last token; see Turn.Behind
	Attempts      int     `json:"attempts"`          // 1 + retries after infrastructure failures
	Replays       int     `json:"replays,omitempty"` // number of lost environment instances that were replaced
	Millis        float64 `json:"ms"`
}

// SampledTokens returns the number of tokens that the model sampled.
func (e *Episode) SampledTokens() int { return bytes.Count(e.Mask, []byte{1}) }

// ForgetIDs removes the token ids and all fields with one value or position per token.
// It is for engines that exchange text, where the token ids are not the model's. The
// texts remain in Turns and Messages.
func (e *Episode) ForgetIDs() {
	e.Tokens, e.Mask, e.LogProbs, e.Contexts = nil, nil, nil, nil
	for i := range e.Turns {
		e.Turns[i].Start, e.Turns[i].End = 0, 0
	}
}
