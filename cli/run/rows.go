package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// The default columns of the files that Generate and Score read and write. Files
// of OpenManus-RL have the same columns, except the replies.
const (
	PromptColumn      = "prompt"
	ResponseColumn    = "responses"
	GroundTruthColumn = "reward_model.ground_truth"
	DataSourceColumn  = "data_source"
)

// tokensKey is the column of the replies' lengths.
func tokensKey(responseKey string) string { return responseKey + "_tokens" }

// readTable reads the input file. If there is an output file, it checks that this
// is another file, so that the command can be repeated; that the output does not exist, unless
// force is set; and that the input lacks the columns that the command adds.
func readTable(ctx context.Context, h *Host, in, out string, force bool, columns ...string) (*table.Table, error) {
	if out != "" && h.SameFile(in, out) {
		return nil, errext.With(errext.Usage, "choose another name", fmt.Errorf("%s is the input file", out))
	}
	if err := h.CheckOutput(out, force); err != nil {
		return nil, err
	}
	t, err := table.Read(ctx, h.Path(in))
	if err == nil && out != "" {
		err = t.CheckOutput(out)
		for _, column := range columns {
			err = errors.Join(err, t.Lacks(column))
		}
	}
	return t, errext.With(errext.Input, "", err)
}

// mapRows applies f to every row of the input file and returns the results.
func mapRows[T any](t *table.Table, in string, f func(i int, row map[string]any) (T, error)) ([]T, error) {
	out := make([]T, t.Len())
	for i := range out {
		row, err := t.Row(i)
		if err == nil {
			out[i], err = f(i, row)
		}
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: row %d: %w", in, i, err))
		}
	}
	return out, nil
}

// writeTable writes a table atomically, in the format of the file extension.
func writeTable(h *Host, t *table.Table, path string, replace bool) error {
	return h.WriteWith(path, replace, func(w io.Writer) error {
		return t.Write(w, strings.EqualFold(filepath.Ext(path), ".parquet"))
	})
}

// promptOf returns the prompt in a column. The column has messages, or text that becomes
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
