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
	// Conversations counts the rows with a recorded episode, which the figures
	// below describe.
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
	Tasks     int    `json:"tasks"` // distinct
	MinIndex  int    `json:"min_index"`
	MaxIndex  int    `json:"max_index"`
	Unindexed int    `json:"rows_without_index"`
}

// DumpInfo summarizes the episodes of a dump. Outcomes and Exchanges count all
// episodes, the other figures those that may become a gradient.
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

// Inspect reads a data file and describes its content. env is the environment of
// rows without one.
func Inspect(ctx context.Context, path, env string) (*FileInfo, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	info := &FileInfo{Path: path, Bytes: st.Size(), Others: []string{}, Tasks: data.TaskSet{}}
	rows, unindexed := map[string]int{}, map[string]int{}
	src, err := ReadSource(ctx, path, func(e *Entry) error {
		task, err := e.Task(env)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, e.Where(), err)
		}
		info.Rows++
		info.Tasks.Add(task.Env, task.Index)
		if rows[task.Env]++; task.Index == data.NoIndex {
			unindexed[task.Env]++
		}
		info.addConversation(task.Conversation)
		if e.Episode != nil {
			info.addEpisode(e.Episode)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	info.Format, info.Compressed = src.Format, src.Compressed
	info.Others = append(info.Others, src.Others...)
	if src.Format == DumpFile {
		if info.Dump == nil {
			info.Dump = &DumpInfo{Outcomes: map[data.Outcome]int{}}
		}
		info.Dump.Weights, info.Dump.Torn = src.Header.Weights, src.Torn
	}
	info.Envs = envInfos(info.Tasks, rows)
	for i := range info.Envs {
		info.Envs[i].Unindexed = unindexed[info.Envs[i].Env]
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

func envInfos(tasks data.TaskSet, rows map[string]int) []EnvInfo {
	out := []EnvInfo{}
	for _, env := range slices.Sorted(maps.Keys(rows)) {
		info := EnvInfo{Env: env, Rows: rows[env], Tasks: len(tasks[env])}
		first := true
		for index := range tasks[env] {
			if first {
				info.MinIndex, info.MaxIndex, first = index, index, false
			}
			info.MinIndex, info.MaxIndex = min(info.MinIndex, index), max(info.MaxIndex, index)
		}
		out = append(out, info)
	}
	return out
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
			if m.Loss == nil || *m.Loss {
				f.Learned++
			}
		}
	}
	f.Messages.add(float64(len(messages)))
	f.Chars.add(float64(chars))
}

func (f *FileInfo) addEpisode(e *data.Episode) {
	if f.Dump == nil {
		f.Dump = &DumpInfo{Outcomes: map[data.Outcome]int{}}
	}
	d := f.Dump
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
