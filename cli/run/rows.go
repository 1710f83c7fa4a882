package run

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// The default columns of the files that Generate and Score read and write.
// Apart from the replies, they are those of OpenManus-RL's files.
const (
	PromptColumn      = "prompt"
	ResponseColumn    = "responses"
	GroundTruthColumn = "reward_model.ground_truth"
	DataSourceColumn  = "data_source"
)

// tokensKey is the column of the replies' lengths.
func tokensKey(responseKey string) string { return responseKey + "_tokens" }

// readTable reads a data file.
func readTable(ctx context.Context, h *Host, path string) (*table.Table, error) {
	t, err := table.Read(ctx, h.Path(path))
	return t, errext.With(errext.Input, "", err)
}

// writeTable writes a table atomically, in the format of the file extension.
func writeTable(h *Host, t *table.Table, path string, replace bool) (err error) {
	f, err := h.Create(path)
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	defer f.Discard()
	if err := t.Write(f, strings.EqualFold(filepath.Ext(path), ".parquet")); err != nil {
		return errext.With(errext.Disk, "", err)
	}
	return errext.With(errext.Disk, "", f.Commit(replace))
}

// freeOutput returns an error if path exists and force is false, or if path is
// the input, without which the command could not be repeated.
func freeOutput(h *Host, in, path string, force bool) error {
	if h.SameFile(in, path) {
		return errext.With(errext.Usage, "choose another name", fmt.Errorf("%s is the input file", path))
	}
	return h.CheckOutput(path, force)
}

// promptOf returns the prompt in a column of messages, or of text, which becomes
// one user message.
func promptOf(row map[string]any, key string) ([]data.Message, error) {
	switch v := table.At(row, key).(type) {
	case nil:
		return nil, fmt.Errorf("the row has no column %s: name the column of prompts with --prompt-key", key)
	case string:
		return []data.Message{{Role: "user", Content: v}}, nil
	case []any:
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		var messages []data.Message
		if err := json.Unmarshal(raw, &messages); err != nil || len(messages) == 0 {
			return nil, fmt.Errorf("column %s holds %.60s, not a list of messages", key, raw)
		}
		for _, m := range messages {
			if m.Role == "" {
				return nil, fmt.Errorf("column %s holds a message without a role", key)
			}
		}
		return messages, nil
	}
	return nil, fmt.Errorf("column %s is neither text nor a list of messages", key)
}

// promptText returns a prompt as text for score functions, or "" without one.
func promptText(row map[string]any, key string) string {
	messages, err := promptOf(row, key)
	if err != nil { // files to be scored may lack prompts
		return ""
	}
	var texts []string
	for _, m := range messages {
		texts = append(texts, m.Content)
	}
	return strings.Join(texts, "\n")
}
