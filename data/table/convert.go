package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/data"
)

// ErrOverlong is the error of a row longer than MaxTokens without DropOverlong.
var ErrOverlong = errors.New("it is too long")

// ErrNoReward is the error of a row without reward and outcome if rows are
// selected by reward or outcome.
var ErrNoReward = errors.New("it does not state how the episode ended: only a dump of episodes does")

// ErrNoTokens is the error of a row of unknown length if rows are selected by
// length.
var ErrNoTokens = errors.New("its tokens cannot be counted without a tokenizer")

// ConvertOptions selects rows.
type ConvertOptions struct {
	Env       string       // keep the rows of this environment and rows without an environment; "": all
	MinReward *float64     // keep episodes with at least this reward
	Success   bool         // keep episodes that ended in success
	Exclude   data.TaskSet // leave out these tasks

	// MaxTokens is the length limit of a conversation; 0: none. Tokens counts the
	// tokens of a conversation. If it is nil, an episode has its recorded length.
	MaxTokens    int
	Tokens       func([]data.Message) (int, error)
	DropOverlong bool // drop longer rows instead of returning ErrOverlong
}

// The reasons for dropping rows, which are the keys of ConvertCounts.Dropped.
const (
	DropFailed   = "failure of the infrastructure"
	DropEnv      = "another environment"
	DropReward   = "reward too low"
	DropOutcome  = "no success"
	DropExcluded = "task excluded"
	DropLength   = "too long"
	DropNoReply  = "no reply to learn from"
)

// ConvertCounts counts the rows of a conversion.
type ConvertCounts struct {
	Read    int            `json:"read"`
	Written int            `json:"written"`
	Dropped map[string]int `json:"dropped"` // by reason
	Others  []string       `json:"columns_left_out"`
	Torn    []string       `json:"torn"` // dumps whose incomplete last line was dropped
	Tasks   data.TaskSet   `json:"-"`    // tasks of the written rows
}

// Convert reads data files of any known format in order and writes the selected
// rows, one at a time. It always drops the episodes of a dump that have no reply or
// that failed because of the infrastructure.
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
	task, why, err := o.Refuses(e)
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
	if e.Line > 0 || r.Index != nil { // a row with OpenManus-RL's columns is kept as it is
		r.Complete(&task)
	}
	c.Written++
	c.Tasks.Add(task.Env, task.Index)
	return w.Write(r)
}

// episode writes an episode: one row, or one per reply if every turn had a new
// prompt, since no single conversation contains them all.
func (c *ConvertCounts) episode(e *data.Episode, w RecordWriter) error {
	c.Tasks.Add(e.Task.Env, e.Task.Index)
	for _, messages := range e.Conversations() {
		row := *e
		row.Messages = messages
		c.Written++
		if err := w.Write(RecordOf(&row)); err != nil {
			return err
		}
	}
	return nil
}

// Refuses returns the task of a row and the reason for dropping the row, "" if
// the row is selected.
func (o *ConvertOptions) Refuses(e *Entry) (t data.Task, reason string, err error) {
	if t, err = e.Task(o.Env); err == nil {
		reason, err = o.refuses(e, &t)
	}
	return t, reason, err
}

// refuses checks the length last, so ErrOverlong reports only rows that pass the other checks.
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
	case ep != nil && !slices.ContainsFunc(t.Conversation, learned):
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

// tokens returns the length of the longest conversation of an entry.
func (o *ConvertOptions) tokens(e *Entry, t *data.Task) (longest int, err error) {
	conversations := [][]data.Message{t.Conversation}
	if e.Episode != nil {
		conversations = e.Episode.Conversations()
	}
	switch {
	case o.Tokens != nil:
		for _, messages := range conversations {
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

// learned reports whether a message is a reply in the loss.
func learned(m data.Message) bool { return m.Role == "assistant" && (m.Loss == nil || *m.Loss) }
