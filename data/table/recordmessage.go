package table

import "github.com/openmanus/openmanus/data"

// agentTrajNames are AgentTraj's names of the roles of a chat.
var agentTrajNames = map[string]string{"user": "human", "assistant": "gpt"}

// from is who speaks, by AgentTraj's names.
func (m *RecordMessage) from() *string {
	if m.From != nil || m.Role == nil {
		return m.From
	}
	if name, ok := agentTrajNames[*m.Role]; ok {
		return &name
	}
	return m.Role
}

// role is who speaks, by the names of chat templates.
func (m *RecordMessage) role() *string {
	if m.Role != nil || m.From == nil {
		return m.Role
	}
	if role, ok := roles[*m.From]; ok {
		return &role
	}
	return m.From
}

func (m *RecordMessage) text() *string {
	if m.Value == nil {
		return m.Content
	}
	return m.Value
}

// trajectory makes messages AgentTraj's, which marks every reply.
func trajectory(in []data.Message) []RecordMessage {
	out := make([]RecordMessage, len(in))
	for i, m := range in {
		from, loss := m.Role, m.Loss
		if name, ok := agentTrajNames[m.Role]; ok {
			from = name
		}
		if loss == nil && m.Role == "assistant" {
			yes := true
			loss = &yes
		}
		out[i] = RecordMessage{From: &from, Value: &m.Content, Loss: loss}
	}
	return out
}

// RecordOf is an episode as a row to learn from: all replies are in the loss.
func RecordOf(e *data.Episode) *Record {
	r := &Record{DataSource: &e.Task.Env, ItemID: &e.Task.ID, Conversations: trajectory(e.Messages)}
	r.Complete(&e.Task)
	return r
}

// Complete fills in the columns of OpenManus-RL's files that a row does not
// have, from the task it stands for, as their generator does. Two differ:
// extra_info.index is the task's, where theirs is a running number that nobody
// can use, and prompt holds the messages before the first reply, without their
// preamble.
func (r *Record) Complete(t *data.Task) {
	ability, style := "agent-reasoning", "rule"
	setDefault(&r.DataSource, &t.Env)
	setDefault(&r.ItemID, &t.ID)
	setDefault(&r.Ability, &ability)
	if r.Prompt == nil {
		for _, m := range r.Conversations {
			role := m.role()
			if role != nil && *role == "assistant" {
				break
			}
			r.Prompt = append(r.Prompt, RecordMessage{Role: role, Content: m.text()})
		}
	}
	inReward(r)
	inExtra(r)
	if r.RewardModel.GroundTruth == nil || r.ExtraInfo.Conversations == nil {
		text := conversationText(r.Conversations)
		setDefault(&r.RewardModel.GroundTruth, &text)
		setDefault(&r.ExtraInfo.Conversations, &text)
	}
	setDefault(&r.RewardModel.Style, &style)
	if _, _, ok := splitID(*r.ItemID); t.Index != data.NoIndex && (!ok || r.ExtraInfo.Index == nil) {
		index := int64(t.Index)
		r.ExtraInfo.Index = &index
	}
	setDefault(&r.ExtraInfo.Split, &t.Env)
}

func setDefault[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}
