package data

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads AgentTraj-like records, one a line or in one array, and hands
// each to row with its number, from 0, and the line where it begins, from 1.
func readJSON(ctx context.Context, in *bufio.Reader, row func(n, line int, r *Record) error) (array bool, err error) {
	o, err := newObjects(in)
	if err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return o.array, err
		}
		raw, line, err := o.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return o.array, nil
		}
		if err != nil {
			return o.array, fmt.Errorf("row %d, line %d: %w", n, line, err)
		}
		var j jsonRow
		if err := json.Unmarshal(raw, &j); err != nil {
			return o.array, fmt.Errorf("row %d, line %d: %w", n, line+linesBefore(raw, err), err)
		}
		r, err := j.record()
		if err != nil {
			return o.array, fmt.Errorf("row %d, line %d: %w", n, line, err)
		}
		if err := row(n, line, &r); err != nil {
			return o.array, err
		}
	}
}

// linesBefore counts the line ends before the place where decoding failed.
func linesBefore(raw []byte, err error) int {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var at int64
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset - 1 // the byte that was read last
	case errors.As(err, &kind):
		at = kind.Offset
	}
	return bytes.Count(raw[:max(0, min(at, int64(len(raw))))], []byte("\n"))
}

// jsonRow is Record as JSON. What OpenManus-RL's data classes only carry along
// may have any type; where it is not text it is left out.
type jsonRow struct {
	DataSource    *string         `json:"data_source"`
	ItemID        *string         `json:"item_id"`
	ID            json.RawMessage `json:"id"` // a string or a number
	Conversations []jsonMessage   `json:"conversations"`
	Prompt        []jsonMessage   `json:"prompt"`
	Ability       json.RawMessage `json:"ability"`
	RewardModel   *struct {
		GroundTruth json.RawMessage `json:"ground_truth"` // text, or anything a score function reads
		Style       json.RawMessage `json:"style"`
	} `json:"reward_model"`
	ExtraInfo *struct {
		Conversations json.RawMessage `json:"conversations"`
		Index         *int64          `json:"index"`
		Split         json.RawMessage `json:"split"`
	} `json:"extra_info"`
}

type jsonMessage struct {
	From    *string `json:"from"`
	Value   *string `json:"value"`
	Role    *string `json:"role"`
	Content *string `json:"content"`
	Loss    *bool   `json:"loss"`
}

func (j *jsonRow) record() (Record, error) {
	r := Record{DataSource: j.DataSource, ItemID: j.ItemID, Ability: textIn(j.Ability)}
	if deref(r.ItemID) == "" && len(j.ID) > 0 && string(j.ID) != "null" {
		if r.ItemID = textIn(j.ID); r.ItemID == nil {
			var n json.Number
			if err := json.Unmarshal(j.ID, &n); err != nil {
				return r, fmt.Errorf("id is %.20s, not a string or a number", j.ID)
			}
			s := n.String()
			r.ItemID = &s
		}
	}
	r.Conversations = recordMessages(j.Conversations)
	r.Prompt = recordMessages(j.Prompt)
	if m := j.RewardModel; m != nil {
		r.RewardModel = &RecordReward{GroundTruth: textOrJSON(m.GroundTruth), Style: textIn(m.Style)}
	}
	if e := j.ExtraInfo; e != nil {
		r.ExtraInfo = &RecordExtra{Conversations: textIn(e.Conversations), Index: e.Index, Split: textIn(e.Split)}
	}
	return r, nil
}

func recordMessages(in []jsonMessage) []RecordMessage {
	if in == nil {
		return nil
	}
	out := make([]RecordMessage, len(in))
	for i, m := range in {
		out[i] = RecordMessage(m)
	}
	return out
}

// textOrJSON is the text of a JSON string, of any other value its JSON, and
// nil for null.
func textOrJSON(raw json.RawMessage) *string {
	if s := textIn(raw); s != nil || len(raw) == 0 || string(raw) == "null" {
		return s
	}
	s := string(raw)
	return &s
}

// textIn is the text of a JSON string, nil for any other value.
func textIn(raw json.RawMessage) *string {
	var s *string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}
