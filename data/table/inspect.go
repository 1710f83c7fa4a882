package table

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
)

// FileInfo describes the content of a data file.
type FileInfo struct {
	Path       string    `json:"path"`
	Format     string    `json:"format"`
	Compressed bool      `json:"compressed,omitempty"`
	Bytes      int64     `json:"bytes"`
	Rows       int       `json:"rows"`
	Envs       []EnvInfo `json:"envs"`
	// Conversations counts the rows with a recorded episode. Messages, Replies,
	// Learned and Chars describe these rows.
	Conversations int       `json:"conversations"`
	Messages      Range     `json:"messages"`         // per conversation
	Replies       int       `json:"replies"`          // messages of the assistant
	Learned       int       `json:"learned_replies"`  // replies in the loss
	Chars         Range     `json:"characters"`       // per conversation
	Others        []string  `json:"columns_not_read"` // of a parquet file
	Dump          *DumpInfo `json:"dump,omitempty"`   // nil if the file is not a dump

	Tasks data.TaskSet `json:"-"`
}

// EnvInfo describes the rows of one environment.
type EnvInfo struct {
	Env       string `json:"env"`
	Rows      int    `json:"rows"`
	Tasks     int    `json:"tasks"` // distinct tasks
	MinIndex  int    `json:"min_index"`
	MaxIndex  int    `json:"max_index"`
	Unindexed int    `json:"rows_without_index"`
}

// DumpInfo summarizes the episodes of a dump. Outcomes and Exchanges count all
// episodes, the other figures only those with a Trainable outcome.
type DumpInfo struct {
	Weights   string               `json:"weights"`
	Torn      bool                 `json:"torn"`
	Outcomes  map[data.Outcome]int `json:"outcomes"`
	Reward    Range                `json:"reward"`
	Turns     Range                `json:"turns"`
	Tokens    Range                `json:"tokens"`
	Sampled   int                  `json:"sampled_tokens"`
	Exchanges int                  `json:"exchanges"`
}

// Range summarizes numbers.
type Range struct {
	Count int     `json:"count"`
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	Max   float64 `json:"max"`
}

func (r *Range) add(x float64) {
	if r.Count == 0 {
		r.Min, r.Max = x, x
	}
	r.Min, r.Max = min(r.Min, x), max(r.Max, x)
	r.Count++
	r.Mean += (x - r.Mean) / float64(r.Count)
}

// Inspect reads a data file and describes its content. The argument env is the
// environment of rows that state none.
func Inspect(ctx context.Context, path, env string) (*FileInfo, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	info := &FileInfo{Path: path, Bytes: st.Size(), Envs: []EnvInfo{}, Others: []string{}, Tasks: data.TaskSet{}}
	dump := &DumpInfo{Outcomes: map[data.Outcome]int{}}
	envs := map[string]*EnvInfo{}
	src, err := ReadSource(ctx, path, func(e *Entry) error {
		task, err := e.Task(env)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, e.Where(), err)
		}
		info.Rows++
		info.Tasks.Add(task.Env, task.Index)
		if envs[task.Env] == nil {
			envs[task.Env] = &EnvInfo{Env: task.Env}
		}
		envs[task.Env].Rows++
		if task.Index == data.NoIndex {
			envs[task.Env].Unindexed++
		}
		info.addConversation(task.Conversation)
		if e.Episode != nil {
			dump.add(e.Episode)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	info.Format, info.Compressed = src.Format, src.Compressed
	info.Others = append(info.Others, src.Others...)
	if src.Format == DumpFile {
		dump.Weights, dump.Torn = src.Header.Weights, src.Torn
		info.Dump = dump
	}
	for _, env := range slices.Sorted(maps.Keys(envs)) {
		e := envs[env]
		if indices := slices.Sorted(maps.Keys(info.Tasks[env])); len(indices) > 0 {
			e.Tasks, e.MinIndex, e.MaxIndex = len(indices), indices[0], indices[len(indices)-1]
		}
		info.Envs = append(info.Envs, *e)
	}
	return info, nil
}

// Task returns the entry's task with its conversation.
func (e *Entry) Task(env string) (data.Task, error) {
	if e.Record != nil {
		return e.Record.Task(e.N, env)
	}
	t := e.Episode.Task
	t.Conversation = e.Episode.Messages
	return t, nil
}

func (f *FileInfo) addConversation(messages []data.Message) {
	if len(messages) == 0 {
		return
	}
	f.Conversations++
	chars := 0
	for _, m := range messages {
		chars += utf8.RuneCountInString(m.Content)
		if m.Role == "assistant" {
			f.Replies++
		}
		if learned(m) {
			f.Learned++
		}
	}
	f.Messages.add(float64(len(messages)))
	f.Chars.add(float64(chars))
}

func (d *DumpInfo) add(e *data.Episode) {
	d.Outcomes[e.Outcome]++
	d.Exchanges += len(e.Exchanges)
	if !e.Outcome.Trainable() {
		return
	}
	d.Reward.add(e.Reward)
	d.Turns.add(float64(len(e.Turns)))
	d.Tokens.add(float64(len(e.Tokens)))
	d.Sampled += e.SampledTokens()
}
