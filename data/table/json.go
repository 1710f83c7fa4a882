package table

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// readJSON reads records in the style of AgentTraj, one per line or in an array.
func readJSON(ctx context.Context, in *bufio.Reader, visit func(*Entry) error) (array bool, err error) {
	return eachObject(ctx, in, func(n, line int, raw []byte) error {
		r, err := parseRecord(raw)
		if err != nil {
			return fmt.Errorf("row %d, line %d: %w", n, line+linesBefore(raw, err), err)
		}
		columns := func() []string { return columnsOf(raw) }
		return visit(&Entry{N: n, Line: line, Record: r, columns: columns})
	})
}

// linesBefore counts the line ends before the position where decoding failed.
func linesBefore(raw []byte, err error) int {
	var at int64
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset - 1 // the byte that was read last
	} else if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = kind.Offset
	}
	return bytes.Count(raw[:max(0, min(at, int64(len(raw))))], []byte("\n"))
}

// jsonRow is a Record in JSON. Columns that OpenManus-RL's data classes do not
// interpret may have any type, and are dropped if they are not strings.
type jsonRow struct {
	DataSource    *string         `json:"data_source"`
	ItemID        json.RawMessage `json:"item_id"` // a string or a number
	ID            json.RawMessage `json:"id"`      // a string or a number
	Index         json.RawMessage `json:"index"`   // a number; other values are ignored
	Conversations []RecordMessage `json:"conversations"`
	Prompt        []RecordMessage `json:"prompt"`
	Ability       json.RawMessage `json:"ability"`
	RewardModel   *struct {
		GroundTruth json.RawMessage `json:"ground_truth"` // any value that a score function reads
		Style       json.RawMessage `json:"style"`
	} `json:"reward_model"`
	ExtraInfo *struct {
		Conversations json.RawMessage `json:"conversations"`
		Index         *int64          `json:"index"`
		Split         json.RawMessage `json:"split"`
	} `json:"extra_info"`
}

// parseRecord parses a row in JSON.
func parseRecord(raw []byte) (*Record, error) {
	var j jsonRow
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	r := &Record{DataSource: j.DataSource, Conversations: j.Conversations, Prompt: j.Prompt, Ability: textIn(j.Ability)}
	var err error
	if r.ItemID, err = idIn("item_id", j.ItemID); err != nil {
		return nil, err
	}
	if deref(r.ItemID) == "" {
		id, err := idIn("id", j.ID)
		if err != nil {
			return nil, err
		}
		r.ItemID = cmp.Or(id, r.ItemID)
	}
	if text, err := idIn("index", j.Index); err == nil {
		r.Index = integer(deref(text))
	}
	if m := j.RewardModel; m != nil {
		r.RewardModel = &RecordReward{GroundTruth: textOrJSON(m.GroundTruth), Style: textIn(m.Style)}
	}
	if e := j.ExtraInfo; e != nil {
		r.ExtraInfo = &RecordExtra{Conversations: textIn(e.Conversations), Index: e.Index, Split: textIn(e.Split)}
	}
	return r, nil
}

// idIn returns a JSON string or number as text, nil for null.
func idIn(name string, raw json.RawMessage) (*string, error) {
	text := textOrJSON(raw)
	if text != nil && textIn(raw) == nil && json.Unmarshal(raw, new(json.Number)) != nil {
		return nil, fmt.Errorf("%s is %.20s, not a string or a number", name, raw)
	}
	return text, nil
}

// integer parses a decimal integer. It returns nil if text is not a decimal integer.
func integer(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// columnsOf lists the keys of a JSON object.
func columnsOf(raw []byte) []string {
	var row map[string]json.RawMessage
	if json.Unmarshal(raw, &row) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(row))
}

// textOrJSON returns the text of a JSON string, the JSON of any other value, and
// nil for null.
func textOrJSON(raw json.RawMessage) *string {
	if s := textIn(raw); s != nil || len(raw) == 0 || string(raw) == "null" {
		return s
	}
	s := string(raw)
	return &s
}

// textIn returns the text of a JSON string, nil for any other value.
func textIn(raw json.RawMessage) *string {
	var s *string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}
