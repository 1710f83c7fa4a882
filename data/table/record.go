package table

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// Record is a row of a data file in any format: the columns of OpenManus-RL's
// parquet files (protocol 7.1) and the keys of AgentTraj's JSON. A null is nil; an
// empty list is not.
type Record struct {
	DataSource    *string         `parquet:"data_source"`
	ItemID        *string         `parquet:"item_id"` // item_id, or id if there is no item_id
	Index         *int64          // the column index
	Conversations []RecordMessage `parquet:"conversations"`
	Prompt        []RecordMessage `parquet:"prompt"`
	Ability       *string         `parquet:"ability"`
	RewardModel   *RecordReward   `parquet:"reward_model"`
	ExtraInfo     *RecordExtra    `parquet:"extra_info"`
}

// RecordMessage is a message in one of two notations: from and value (AgentTraj),
// or role and content (chat formats).
type RecordMessage struct {
	From    *string `json:"from" parquet:"from"`
	Value   *string `json:"value" parquet:"value"`
	Role    *string `json:"role" parquet:"role"`
	Content *string `json:"content" parquet:"content"`
	Loss    *bool   `json:"loss" parquet:"loss"`
}

// RecordReward is the column reward_model.
type RecordReward struct {
	GroundTruth *string `parquet:"ground_truth"`
	Style       *string `parquet:"style"`
}

// RecordExtra is the column extra_info.
type RecordExtra struct {
	Conversations *string `parquet:"conversations"`
	Index         *int64  `parquet:"index"`
	Split         *string `parquet:"split"`
}

// roles maps the role names of data files to the names of chat templates.
var roles = map[string]string{
	"human": "user", "gpt": "assistant",
	"user": "user", "assistant": "assistant", "system": "system",
}

// Task returns the row as a Task. The argument n is the row's number in the
// file, from 0; env is the environment of a row that states none.
func (r *Record) Task(n int, env string) (data.Task, error) {
	id := deref(r.ItemID)
	t := data.Task{ID: id, Env: envOf(deref(r.DataSource), id)}
	t.Env = cmp.Or(t.Env, env)
	if t.Env != env && env != "" && envOf("", id) == env { // as in item_id "searchqa_3" with data_source "nq"
		t.Env, t.Source = env, deref(r.DataSource)
	}
	index, err := r.index()
	if err != nil { // only a task to play needs an index: see LoadOptions.Play
		index = data.NoIndex
	}
	t.Index = index
	if t.ID == "" {
		switch {
		case t.Env == "":
			return t, errors.New("it has neither item_id nor data_source: say which environment it is for; rows of prompts with answers are read in [[env]] tables of kind = \"prompt\" (docs/prompt-tasks.md)")
		case t.Index == data.NoIndex:
			t.ID = t.Env + ":" + strconv.Itoa(n)
		default:
			t.ID = t.Env + "_" + strconv.Itoa(t.Index)
		}
	}
	if t.Prompt, err = convert(r.Prompt); err != nil {
		return t, fmt.Errorf("prompt: %w", err)
	}
	if t.Conversation, err = convert(r.Conversations); err != nil {
		return t, fmt.Errorf("conversations: %w", err)
	}
	if r.RewardModel != nil {
		t.GroundTruth = deref(r.RewardModel.GroundTruth)
	}
	return t, nil
}

var errNoIndex = errors.New("no column has the task's index")

// index returns the row's task index: the integer at the end of the id or the
// column "index" (it is an error if they differ), or else extra_info.index.
// extra_info.index comes last because in OpenManus-RL's files it is a row
// number, which the environment does not know (protocol 7.2).
func (r *Record) index() (int, error) {
	_, index, ok := splitID(deref(r.ItemID))
	switch {
	case r.Index != nil && validIndex(*r.Index):
		if ok && int64(index) != *r.Index {
			return 0, fmt.Errorf("its id ends in task index %d, but its column index is %d: drop the wrong column", index, *r.Index)
		}
		return int(*r.Index), nil
	case ok:
		return index, nil
	case r.ExtraInfo != nil && r.ExtraInfo.Index != nil && validIndex(*r.ExtraInfo.Index):
		return int(*r.ExtraInfo.Index), nil
	}
	return 0, errNoIndex
}

func validIndex(i int64) bool { return i >= 0 && i <= math.MaxInt32 }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// splitID cuts "lmrlgym_maze_13" into "lmrlgym_maze" and 13, and "13" into ""
// and 13.
func splitID(id string) (prefix string, index int, ok bool) {
	at := strings.LastIndexByte(id, '_')
	v, err := strconv.ParseUint(id[at+1:], 10, 31)
	return id[:max(at, 0)], int(v), err == nil
}

// envOf returns a row's environment. Item ids of the games of LMRL-Gym have the
// name of the suite as a prefix, which data_source and the registry lack.
func envOf(source, id string) string {
	if source == "" {
		source, _, _ = splitID(id)
	}
	return strings.TrimPrefix(source, "lmrlgym_")
}

func convert(in []RecordMessage) ([]data.Message, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]data.Message, len(in))
	for i, m := range in {
		from, text := cmp.Or(m.From, m.Role), m.text()
		if from == nil || text == nil {
			return nil, fmt.Errorf("message %d has no role (from, role) or no text (value, content)", i)
		}
		role, ok := roles[*from]
		if !ok {
			return nil, fmt.Errorf("message %d: unknown role %q (known: human, gpt, user, assistant, system)", i, *from)
		}
		out[i] = data.Message{Role: role, Content: *text, Loss: m.Loss}
	}
	return out, nil
}
