package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/openmanus/openmanus/data/transport"
	"github.com/openmanus/openmanus/internal/plainjson"
	"github.com/openmanus/openmanus/reward"
)

// request is the body of a POST to a server, or a line of a program's input.
type request struct {
	Request int      `json:"request"` // counts from 1; a program repeats it in the reply
	Samples []sample `json:"samples"`
}

type sample struct {
	ID          string  `json:"id"`
	DataSource  string  `json:"data_source"`
	Prompt      string  `json:"prompt"`
	Response    string  `json:"response"`
	GroundTruth string  `json:"ground_truth"`
	EnvReward   float64 `json:"env_reward"`
	Tokens      *int    `json:"tokens,omitempty"`
	Turns       []turn  `json:"turns,omitempty"`
}

type turn struct {
	Text        string  `json:"text"`
	Action      string  `json:"action"`
	Parsed      bool    `json:"parsed"`
	Observation string  `json:"observation"`
	Reward      float64 `json:"reward"`
}

// encode returns a request as one line of JSON.
func encode(n int, samples []reward.Sample) ([]byte, error) {
	r := request{Request: n, Samples: make([]sample, len(samples))}
	for i := range samples {
		in := &samples[i]
		s := sample{
			ID: in.ID, DataSource: in.Source, Prompt: in.Prompt, Response: in.Response, GroundTruth: in.GroundTruth, EnvReward: in.EnvReward,
		}
		if in.Tokens >= 0 {
			s.Tokens = &in.Tokens
		}
		for _, t := range in.Turns {
			s.Turns = append(s.Turns, turn{t.Text, t.Action, t.Parsed, t.Observation, t.Reward})
		}
		r.Samples[i] = s
	}
	line, err := plainjson.Marshal(r)
	return append(line, '\n'), err
}

// reply is the reply of a score function.
type reply struct {
	Request int               `json:"request"`
	Scores  []json.RawMessage `json:"scores"`
}

// decode parses a reply with a score for each sample. wantRequest is the request number
// that the reply must have, or 0 for any number.
func decode(text []byte, wantRequest int, samples []reward.Sample) ([]reward.Score, error) {
	n := len(samples)
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s is not {\"scores\": [...]}: %w", shown(text), err)
	}
	switch {
	case r.Scores == nil:
		return nil, fmt.Errorf("%s has no \"scores\"", shown(text))
	case wantRequest != 0 && r.Request != wantRequest:
		return nil, fmt.Errorf("the reply is to request %d, want %d", r.Request, wantRequest)
	case len(r.Scores) != n:
		return nil, fmt.Errorf("%d scores for %d samples", len(r.Scores), n)
	}
	out := make([]reward.Score, n)
	for i, raw := range r.Scores {
		s, err := score(raw, max(1, len(samples[i].Turns)))
		if err != nil {
			return nil, fmt.Errorf("score %d: %w", i, err)
		}
		out[i] = s
	}
	return out, nil
}

// score parses a number, a list with a number for each of the sample's turns, or an
// object with one of them as "score". The object's other numbers become metrics.
func score(raw json.RawMessage, turns int) (reward.Score, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return value(raw, turns)
	}
	s, err := value(object["score"], turns)
	if err != nil {
		return s, fmt.Errorf("\"score\" of %s: %w", shown(raw), err)
	}
	s.Extra = map[string]float64{}
	for name, v := range object {
		var n *float64
		if name != "score" && json.Unmarshal(v, &n) == nil && n != nil {
			s.Extra[name] = *n
		}
	}
	return s, nil
}

// value parses a number, or a list of numbers.
func value(raw json.RawMessage, turns int) (reward.Score, error) {
	var x *float64
	var list []*float64
	switch {
	case len(raw) == 0:
		return reward.Score{}, errors.New("it is missing")
	case json.Unmarshal(raw, &x) == nil:
		if x == nil {
			return reward.Score{}, errors.New("the score is null")
		}
		return reward.Score{Value: *x}, nil
	case json.Unmarshal(raw, &list) != nil:
		return reward.Score{}, fmt.Errorf("%s is neither a number, nor a list of numbers, nor an object with \"score\"", shown(raw))
	case len(list) != turns:
		return reward.Score{}, fmt.Errorf("%d numbers for %d turns: give one number for each turn, or one for the episode", len(list), turns)
	}
	s := reward.Score{Turns: make([]float64, turns)}
	for k, x := range list {
		if x == nil {
			return s, fmt.Errorf("the number of turn %d is null", k+1)
		}
		s.Turns[k] = *x
		s.Value += *x
	}
	return s, nil
}

// shown returns the quoted beginning of a text, for an error.
func shown(text []byte) string {
	return strconv.Quote(transport.Excerpt(string(text)))
}
