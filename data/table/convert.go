package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/data"
)

// ErrOverlong is what a row that is too long is refused with where overlong
// rows are not to be dropped.
var ErrOverlong = errors.New("it is too long")

// ErrNoReward is what a row is refused with that says nothing of a reward or
// an outcome where these decide.
var ErrNoReward = errors.New("it does not say how the episode ended: only a dump of episodes does")

// ErrNoTokens is what a row is refused with whose length decides and is not
// known.
var ErrNoTokens = errors.New("its tokens cannot be counted without a tokenizer")

// ConvertOptions say which rows are wanted.
type ConvertOptions struct {
	Env       string       // keep this environment, which is also that of rows that name none; "": all
	MinReward *float64     // keep episodes with at least this reward
	Success   bool         // keep episodes that ended in success
	Exclude   data.TaskSet // leave out these tasks

	// MaxTokens is the longest conversation; 0: any. Tokens counts a
	// conversation's; where it is nil an episode has as many as were recorded.
	MaxTokens    int
	Tokens       func([]data.Message) (int, error)
	DropOverlong bool // instead of ending with ErrOverlong
}

// Why rows are left out.
const (
	DropFailed   = "failure of the infrastructure"
	DropEnv      = "another environment"
	DropReward   = "reward too low"
	DropOutcome  = "no success"
	DropExcluded = "task excluded"
	DropLength   = "too long"
	DropNoReply  = "no reply to learn from"
)

// ConvertCounts say what became of the rows.
type ConvertCounts struct {
	Read    int            `json:"read"`
	Written int            `json:"written"`
	Dropped map[string]int `json:"dropped"` // by reason
	Others  []string       `json:"columns_left_out"`
	Torn    []string       `json:"torn"` // dumps whose torn last line was dropped
	Tasks   data.TaskSet   `json:"-"`    // that were written
}

// Convert reads data files of any known format one after another and writes
// the rows that are wanted, one at a time. Of a dump, episodes that failed for
// a reason outside of them and those without a reply are never wanted.
func Convert(ctx context.Context, files []string, w RecordWriter, o ConvertOptions) (*ConvertCounts, error) {
	c := &ConvertCounts{Dropped: map[string]int{}, Others: []string{}, Torn: []string{}, Tasks: data.TaskSet{}}
	for _, file := range files {
		src, err := ReadSource(ctx, file, func(e *Entry) error {
			if err := c.row(e, w, &o); err != nil {
				return fmt.Errorf("%s: %s: %w", file, e.Where(), err)
			}
			return nil
		})
		if err != nil {
			return c, err
		}
		c.Others = append(c.Others, src.Others...)
		if src.Torn {
			c.Torn = append(c.Torn, file)
		}
	}
	return c, w.Close()
}

func (c *ConvertCounts) row(e *Entry, w RecordWriter, o *ConvertOptions) error {
	c.Read++
	task, err := e.Task(o.Env)
	if err != nil {
		return err
	}
	why, err := o.refuses(e, &task)
	if err != nil {
		return err
	}
	if why != "" {
		c.Dropped[why]++
		return nil
	}
	r := e.Record
	if r == nil {
		return c.episode(e.Episode, w)
	}
	if e.Line > 0 || r.Index != nil { // a row of OpenManus-RL's columns stays as it is
		r.Complete(&task)
	}
	c.Written++
	c.Tasks.Add(task.Env, task.Index)
	return w.Write(r)
}

// episode writes an episode: a row, or one for each reply where prompts were
// written anew, since no conversation holds them all.
func (c *ConvertCounts) episode(e *data.Episode, w RecordWriter) error {
	c.Tasks.Add(e.Task.Env, e.Task.Index)
	for _, messages := range e.Told() {
		row := *e
		row.Messages = messages
		c.Written++
		if err := w.Write(RecordOf(&row)); err != nil {
			return err
		}
	}
	return nil
}

// Refuses says why a row is left out, "" if it is not.
func (o *ConvertOptions) Refuses(e *Entry) (string, error) {
	task, err := e.Task(o.Env)
	if err != nil {
		return "", err
	}
	return o.refuses(e, &task)
}

// refuses says why a row is left out, "" if it is not. Length comes last, so
// that only rows that are wanted can be too long.
func (o *ConvertOptions) refuses(e *Entry, t *data.Task) (string, error) {
	switch ep := e.Episode; {
	case o.Env != "" && t.Env != o.Env:
		return DropEnv, nil
	case ep == nil && (o.MinReward != nil || o.Success):
		return "", ErrNoReward
	case ep != nil && ep.Outcome == data.OverlongPrompt:
		return DropLength, nil
	case ep != nil && !ep.Outcome.Trainable():
		return DropFailed, nil
	case o.Success && ep.Outcome != data.Success:
		return DropOutcome, nil
	case o.MinReward != nil && !(ep.Reward >= *o.MinReward):
		return DropReward, nil
	case o.Exclude.Has(t.Env, t.Index):
		return DropExcluded, nil
	case ep != nil && !teaches(t.Conversation):
		return DropNoReply, nil
	case o.MaxTokens == 0:
		return "", nil
	}
	n, err := o.tokens(e, t)
	if err != nil || n <= o.MaxTokens {
		return "", err
	}
	if o.DropOverlong {
		return DropLength, nil
	}
	return "", fmt.Errorf("%w: %s has %d tokens, more than %d", ErrOverlong, t.ID, n, o.MaxTokens)
}

// tokens is the length of what is learned from, of the longest where that is
// several conversations.
func (o *ConvertOptions) tokens(e *Entry, t *data.Task) (longest int, err error) {
	told := [][]data.Message{t.Conversation}
	if e.Episode != nil {
		told = e.Episode.Told()
	}
	switch {
	case o.Tokens != nil:
		for _, messages := range told {
			if len(messages) == 0 {
				continue
			}
			n, err := o.Tokens(messages)
			if err != nil {
				return 0, err
			}
			longest = max(longest, n)
		}
	case e.Episode != nil:
		for _, span := range e.Episode.ContextSpans() {
			longest = max(longest, span[1]-span[0])
		}
	default:
		return 0, ErrNoTokens
	}
	return longest, nil
}

func teaches(messages []data.Message) bool {
	for _, m := range messages {
		if m.Role == "assistant" && (m.Loss == nil || *m.Loss) {
			return true
		}
	}
	return false
}
