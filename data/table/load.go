package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// LoadOptions selects rows of a file.
type LoadOptions struct {
	// Env selects the rows of one environment, and is the environment of rows and
	// ranges without an environment. "" selects every row.
	Env string
	// AnyEnv also selects the rows of other environments than Env.
	AnyEnv bool
	// Play rejects rows without a task index. Training on recorded
	// conversations does not need an index.
	Play bool
	// Limit keeps only the first rows; 0 means all.
	Limit int
}

// ErrOtherEnv is the error of a file whose rows are all for other environments
// than LoadOptions.Env.
var ErrOtherEnv = errors.New("no row is for environment")

// LoadTasks reads the rows of a data file: OpenManus-RL's parquet, or JSON records
// in the style of AgentTraj, one per line or in an array. The task index of a row
// is the integer at the end of its item_id or id, or its column "index", or else
// extra_info.index. Errors name the file and the row, counted from 0.
func LoadTasks(ctx context.Context, path string, o LoadOptions) (tasks []data.Task, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("load tasks: %w", err)
		}
	}()
	if st, err := os.Stat(path); err == nil && st.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %w", path, errTooLarge(st.Size()))
	}
	list := taskList{limit: o.Limit}
	others := map[string]int{} // rows of other environments
	_, err = ReadSource(ctx, path, func(e *Entry) error {
		fault := func(err error) error { return fmt.Errorf("%s: %s: %w", path, e.Where(), err) }
		if e.Episode != nil {
			return fmt.Errorf("%s is a dump of episodes: select the ones to learn from with openmanus data convert", path)
		}
		t, err := e.Record.Task(e.N, o.Env)
		if err != nil {
			return fault(err)
		}
		if o.Env != "" && !o.AnyEnv && t.Env != o.Env {
			others[t.Env]++
			return nil
		}
		if o.Play {
			if err := e.needIndex(); err != nil {
				return fault(err)
			}
		}
		if err := list.add(e.N, t); err != nil {
			return fault(err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if len(list.tasks) == 0 {
		if len(others) > 0 {
			return nil, fmt.Errorf("%s: %w %q; its rows are for %s", path, ErrOtherEnv, o.Env, counts(others))
		}
		return nil, fmt.Errorf("%s: it has no rows", path)
	}
	return list.tasks, nil
}

// taskList collects the tasks of a file, at most limit of them if limit is not 0.
type taskList struct {
	tasks []data.Task
	limit int
	bytes int64 // size of the tasks in memory
}

// add adds the task of row n. It returns errEnough if the list is complete.
func (l *taskList) add(n int, t data.Task) error {
	if n >= maxRows {
		return fmt.Errorf("more than %d rows: split the file", maxRows)
	}
	if l.bytes += taskSize(&t); l.bytes > maxTaskBytes {
		return fmt.Errorf("the tasks take more than %d bytes: split the file", int64(maxTaskBytes))
	}
	if l.tasks = append(l.tasks, t); len(l.tasks) == l.limit {
		return errEnough
	}
	return nil
}

// counts formats at most eight counts in a fixed order.
func counts(m map[string]int) string {
	var parts []string
	for k, n := range m {
		parts = append(parts, fmt.Sprintf("%s (%d)", k, n))
	}
	slices.Sort(parts)
	if more := len(parts) - 8; more > 0 {
		parts = append(parts[:8], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

// ParseTaskSpec parses a user's list of tasks: indices and ranges of tasks of
// o.Env, and files for LoadTasks, separated by commas, such as "0-9,17". A file
// whose name looks like a range is written with its folder: "./0-9".
func ParseTaskSpec(ctx context.Context, spec string, o LoadOptions) ([]data.Task, error) {
	var tasks []data.Task
	seen := map[int]bool{}
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, fmt.Errorf("tasks %q: an entry is empty: write 0-9,17 or the name of a file", spec)
		}
		if !isRange(part) {
			more, err := LoadTasks(ctx, part, LoadOptions{Env: o.Env, Play: true})
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, more...)
			continue
		}
		if o.Env == "" {
			return nil, fmt.Errorf("tasks %q: %s needs an environment", spec, part)
		}
		lo, hi, err := data.ParseRange(part)
		if err != nil {
			return nil, fmt.Errorf("tasks %q: %w", spec, err)
		}
		if hi-lo >= maxRows-len(tasks) {
			return nil, fmt.Errorf("tasks %q: more than %d tasks", spec, maxRows)
		}
		for i := lo; i <= hi; i++ {
			if seen[i] {
				return nil, fmt.Errorf("tasks %q: index %d appears twice", spec, i)
			}
			seen[i] = true
			tasks = append(tasks, data.Task{ID: o.Env + "_" + strconv.Itoa(i), Env: o.Env, Index: i})
		}
	}
	if o.Limit > 0 && len(tasks) > o.Limit {
		tasks = tasks[:o.Limit]
	}
	return tasks, nil
}

func isRange(s string) bool { return strings.Trim(s, "0123456789- ") == "" }

// taskSize estimates the memory of a task in bytes.
func taskSize(t *data.Task) int64 {
	n := int64(200 + len(t.ID) + len(t.Env) + len(t.GroundTruth))
	for _, list := range [][]data.Message{t.Prompt, t.Conversation} {
		for _, m := range list {
			n += int64(64 + len(m.Role) + len(m.Content))
		}
	}
	return n
}
