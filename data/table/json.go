package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// readJSON reads AgentTraj-like records, one a line or in one array, and hands
// each to row with its number, from 0, the line where it begins, from 1, and
// its text.
func readJSON(ctx context.Context, in *bufio.Reader, row func(n, line int, raw []byte, r *Record) error) (array bool, err error) {
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
		if err := row(n, line, raw, &r); err != nil {
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
	ItemID        json.RawMessage `json:"item_id"` // a string or a number
	ID            json.RawMessage `json:"id"`      // a string or a number
	Index         json.RawMessage `json:"index"`   // a number, or anything that is not read
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
	r := Record{DataSource: j.DataSource, Ability: textIn(j.Ability)}
	var err error
	if r.ItemID, err = idIn("item_id", j.ItemID); err != nil {
		return r, err
	}
	if deref(r.ItemID) == "" {
		id, err := idIn("id", j.ID)
		if err != nil {
			return r, err
		}
		if id != nil {
			r.ItemID = id
		}
	}
	if text, err := idIn("index", j.Index); err == nil {
		r.Index = integer(deref(text))
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

// idIn is the text of a JSON string or number, nil for null.
func idIn(name string, raw json.RawMessage) (*string, error) {
	if s := textIn(raw); s != nil || len(raw) == 0 || string(raw) == "null" {
		return s, nil
	}
	var n json.Number
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("%s is %.20s, not a string or a number", name, raw)
	}
	s := n.String()
	return &s, nil
}

// integer is the integer that a text is, nil if it is none.
func integer(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// columnsOf are the names in a JSON object.
func columnsOf(raw []byte) []string {
	var row map[string]json.RawMessage
	if json.Unmarshal(raw, &row) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(row))
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
