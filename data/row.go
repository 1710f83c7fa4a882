package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sourceRow is a row of a data file, whichever format it came in: the columns
// of OpenManus-RL's parquet files, and the records of AgentTraj-like JSON.
type sourceRow struct {
	DataSource    string
	ItemID        string
	Conversations []sourceMessage
	Prompt        []sourceMessage
	RewardModel   *sourceReward
	ExtraInfo     *sourceExtra
}

// sourceMessage has both spellings of a message, of which a file uses one:
// from and value (AgentTraj), or role and content (chat formats).
type sourceMessage struct {
	From    *string
	Value   *string
	Role    *string
	Content *string
	Loss    *bool
}

type sourceReward struct {
	GroundTruth *string
}

type sourceExtra struct {
	Index *int64
}

// roles maps the role names of data files to those of a chat template.
var roles = map[string]string{
	"human": "user", "gpt": "assistant",
	"user": "user", "assistant": "assistant", "system": "system",
}

// task turns a row into a Task; n is its number in the file, from 0.
func (r *sourceRow) task(n int, env string) (Task, error) {
	t := Task{ID: r.ItemID, Env: envOf(r.DataSource, r.ItemID)}
	if t.Env == "" {
		t.Env = env
	}
	t.Index = r.index(n)
	if t.Index < 0 {
		return t, fmt.Errorf("task index %d is negative", t.Index)
	}
	if t.ID == "" {
		if t.Env == "" {
			return t, errors.New("it has neither item_id nor data_source: say which environment it is for")
		}
		t.ID = t.Env + "_" + strconv.Itoa(t.Index)
	}
	var err error
	if t.Prompt, err = convert(r.Prompt); err != nil {
		return t, fmt.Errorf("prompt: %w", err)
	}
	if t.Conversation, err = convert(r.Conversations); err != nil {
		return t, fmt.Errorf("conversations: %w", err)
	}
	if r.RewardModel != nil && r.RewardModel.GroundTruth != nil {
		t.GroundTruth = *r.RewardModel.GroundTruth
	}
	return t, nil
}

// index is the integer at the end of item_id, else extra_info.index, else the
// row's number. extra_info.index comes second because in OpenManus-RL's files
// it is a running number and not what the environment knows (protocol 7.2).
func (r *sourceRow) index(n int) int {
	if _, i, ok := splitID(r.ItemID); ok {
		return i
	}
	if r.ExtraInfo != nil && r.ExtraInfo.Index != nil {
		return int(*r.ExtraInfo.Index)
	}
	return n
}

// splitID cuts "lmrlgym_maze_13" into "lmrlgym_maze" and 13.
func splitID(id string) (prefix string, index int, ok bool) {
	at := strings.LastIndexByte(id, '_')
	if at < 0 {
		return "", 0, false
	}
	v, err := strconv.ParseUint(id[at+1:], 10, 31)
	return id[:at], int(v), err == nil
}

// envOf names a row's environment. Item ids carry the suite's name in front
// of the games of LMRL-Gym, which data_source and the registry do not.
func envOf(source, id string) string {
	if source == "" {
		source, _, _ = splitID(id)
	}
	return strings.TrimPrefix(source, "lmrlgym_")
}

func convert(in []sourceMessage) ([]Message, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]Message, len(in))
	for i, m := range in {
		from, text := m.From, m.Value
		if from == nil {
			from = m.Role
		}
		if text == nil {
			text = m.Content
		}
		if from == nil || text == nil {
			return nil, fmt.Errorf("message %d has no role (from, role) or no text (value, content)", i)
		}
		role, ok := roles[*from]
		if !ok {
			return nil, fmt.Errorf("message %d: unknown role %q (known: human, gpt, user, assistant, system)", i, *from)
		}
		out[i] = Message{Role: role, Content: *text, Loss: m.Loss}
	}
	return out, nil
}

// jsonRow is sourceRow as JSON.
type jsonRow struct {
	DataSource    string        `json:"data_source"`
	ItemID        string        `json:"item_id"`
	ID            any           `json:"id"` // a string or a number
	Conversations []jsonMessage `json:"conversations"`
	Prompt        []jsonMessage `json:"prompt"`
	RewardModel   *struct {
		GroundTruth *string `json:"ground_truth"`
	} `json:"reward_model"`
	ExtraInfo *struct {
		Index *int64 `json:"index"`
	} `json:"extra_info"`
}

type jsonMessage struct {
	From    *string `json:"from"`
	Value   *string `json:"value"`
	Role    *string `json:"role"`
	Content *string `json:"content"`
	Loss    *bool   `json:"loss"`
}

func (j *jsonRow) source() (sourceRow, error) {
	r := sourceRow{DataSource: j.DataSource, ItemID: j.ItemID}
	if r.ItemID == "" && j.ID != nil {
		switch id := j.ID.(type) {
		case string:
			r.ItemID = id
		case json.Number:
			r.ItemID = id.String()
		default:
			return r, fmt.Errorf("id is a %T, not a string or a number", id)
		}
	}
	for _, m := range j.Conversations {
		r.Conversations = append(r.Conversations, sourceMessage(m))
	}
	for _, m := range j.Prompt {
		r.Prompt = append(r.Prompt, sourceMessage(m))
	}
	if j.RewardModel != nil {
		r.RewardModel = &sourceReward{GroundTruth: j.RewardModel.GroundTruth}
	}
	if j.ExtraInfo != nil {
		r.ExtraInfo = &sourceExtra{Index: j.ExtraInfo.Index}
	}
	return r, nil
}

// size estimates the memory a task takes, to cap the sum.
func (t *Task) size() int64 {
	n := int64(200 + len(t.ID) + len(t.Env) + len(t.GroundTruth))
	for _, list := range [][]Message{t.Prompt, t.Conversation} {
		for _, m := range list {
			n += int64(64 + len(m.Role) + len(m.Content))
		}
	}
	return n
}
