package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/plainjson"
)

// PairOptions selects the two columns of a file of prompts and responses, the
// usual form of supervised data (verl's data.prompt_key and response_key).
type PairOptions struct {
	Env              string // environment of the tasks
	Prompt, Response string // columns; "struct.field" for a field of a struct
	Limit            int    // keep only the first rows; 0 means all
}

// LoadPairs reads prompts and responses from a parquet file, JSON lines or a JSON
// array. Each row becomes a task whose conversation is the prompt, a string or a
// list of messages, and the response, a string. Only the response is in the loss.
func LoadPairs(ctx context.Context, path string, o PairOptions) ([]data.Task, error) {
	if o.Prompt == "" || o.Response == "" || o.Prompt == o.Response {
		return nil, fmt.Errorf("load pairs: name two columns, not %q and %q", o.Prompt, o.Response)
	}
	list := taskList{limit: o.Limit}
	add := func(e Entry, row map[string]any, err error) error {
		var conversation []data.Message
		if err == nil {
			conversation, err = o.conversation(row)
		}
		if err == nil {
			id := fmt.Sprintf("%s:%d", filepath.Base(path), e.N)
			err = list.add(e.N, data.Task{ID: id, Env: o.Env, Index: data.NoIndex, Conversation: conversation})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Where(), err)
		}
		return nil
	}
	err := readRows(ctx, path, func(pf *parquet.File) error {
		return eachRow(ctx, pf, func(n int, values parquet.Row) error {
			row, err := reconstruct(pf.Schema(), values)
			return add(Entry{N: n}, row, err)
		})
	}, func(n, line int, raw []byte) error {
		var row map[string]any
		err := plainjson.Unmarshal(raw, &row)
		return add(Entry{N: n, Line: line}, row, err)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("load pairs: %s: %w", path, err)
	}
	if len(list.tasks) == 0 {
		return nil, fmt.Errorf("load pairs: %s: it has no rows", path)
	}
	return list.tasks, nil
}

// conversation returns the messages of a row.
func (o PairOptions) conversation(row map[string]any) (messages []data.Message, err error) {
	prompt, err := column(row, o.Prompt)
	if err != nil {
		return nil, err
	}
	response, err := column(row, o.Response)
	if err != nil {
		return nil, err
	}
	reply, ok := response.(string)
	if !ok {
		return nil, fmt.Errorf("%s is %.20s, not a string", o.Response, asText(response))
	}
	if text, ok := prompt.(string); ok {
		messages = []data.Message{{Role: "user", Content: text}}
	} else {
		var chat []RecordMessage
		if err := json.Unmarshal([]byte(asText(prompt)), &chat); err != nil || len(chat) == 0 {
			return nil, fmt.Errorf("%s is %.20s, neither a string nor messages", o.Prompt, asText(prompt))
		}
		if messages, err = convert(chat); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Prompt, err)
		}
		no := false
		for i := range messages {
			messages[i].Loss = &no
		}
	}
	return append(messages, data.Message{Role: "assistant", Content: reply}), nil
}

// column returns the value of a column, or of a field as in At.
func column(row map[string]any, path string) (any, error) {
	v := row[path]
	if v == nil {
		v = At(row, path)
	}
	if v == nil {
		return nil, fmt.Errorf("it has no value in column %s; its columns are %s", path, strings.Join(slices.Sorted(maps.Keys(row)), ", "))
	}
	return v, nil
}
