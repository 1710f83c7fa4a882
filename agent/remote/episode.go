package remote

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// status is the state of an episode.
type status string

const (
	running       status = "running"
	finished      status = "finished"  // waits for the rest of the step
	collected     status = "collected" // the step has it
	droppedStatus status = "dropped"
)

// episode is the episode of a session. Store.mu guards it.
type episode struct {
	id       string
	status   status
	reason   string // why it was dropped
	group    *group
	sample   int
	attempt  int
	seed     uint64
	task     data.Task
	began    time.Time
	touched  time.Time // last request, reply or reward
	replying int       // requests in progress
	draws    int       // replies that were begun; part of the key of random draws
	turns    int       // replies that were recorded
	contexts []*record
	newest   *record // context of the newest reply
	reward   float64
	success  bool
	result   *data.Episode // set when the episode has finished
	counts   view          // counts of contexts that were forgotten
}

// ending describes the end of an episode.
func (e *episode) ending() string {
	if e.status == droppedStatus {
		return "it was dropped: " + e.reason
	}
	return fmt.Sprintf("its final reward is %g, with success = %t", e.reward, e.success)
}

// record is one context of an episode: a conversation, or a sequence of token ids.
type record struct {
	session  *engine.Session // nil: the engine has dropped the context
	busy     bool            // a reply is being generated
	used     int64           // Store.clock at the newest reply
	ids      []int32
	mask     []uint8
	logProbs []float32
	messages []data.Message // as the agent knows them; nil for token ids
	turns    []data.Turn    // with positions in ids
	stop     engine.StopReason
	version  int64
}

// continues returns the messages of a conversation after the recorded ones. ok is false if
// the conversation does not continue the record: it changes an earlier message, or
// has a reply that was not sampled here.
func (c *record) continues(messages []data.Message) (more []data.Message, ok bool) {
	if c.messages == nil || len(messages) <= len(c.messages) {
		return nil, false
	}
	for i, m := range c.messages {
		// Agents strip white space from replies. The sampled ids stay as they are.
		if messages[i].Role != m.Role || messages[i].Content != m.Content && (m.Role != "assistant" || strings.TrimSpace(messages[i].Content) != strings.TrimSpace(m.Content)) {
			return nil, false
		}
	}
	more = messages[len(c.messages):]
	return more, !slices.ContainsFunc(more, func(m data.Message) bool { return m.Role == "assistant" })
}

// assemble returns the episode as recorded. Its contexts are ordered by their newest
// reply, so that the last turn of the episode is the one with the last reward.
// The caller has locked s.mu.
func (s *Store) assemble(e *episode, outcome data.Outcome) *data.Episode {
	ep := &data.Episode{
		Task: e.task, UID: e.group.uid, Sample: e.sample, Seed: e.seed, Reward: e.reward, Outcome: outcome,
		Err: e.reason, Attempts: e.attempt, Millis: float64(time.Since(e.began)) / float64(time.Millisecond),
	}
	contexts := slices.DeleteFunc(slices.Clone(e.contexts), func(c *record) bool { return len(c.turns) == 0 })
	slices.SortFunc(contexts, func(a, b *record) int { return cmp.Compare(a.used, b.used) })
	for _, c := range contexts {
		start := len(ep.Tokens)
		if len(contexts) > 1 {
			ep.Contexts = append(ep.Contexts, start)
		}
		ep.Tokens, ep.Mask, ep.LogProbs = append(ep.Tokens, c.ids...), append(ep.Mask, c.mask...), append(ep.LogProbs, c.logProbs...)
		for _, t := range c.turns {
			t.Start, t.End = t.Start+start, t.End+start
			if len(contexts) == 1 {
				t.Prompt = nil // Messages has the whole conversation
			}
			ep.Turns = append(ep.Turns, t)
		}
		ep.Messages = append(ep.Messages, c.messages...)
		ep.WeightVersion = max(ep.WeightVersion, c.version)
	}
	if len(ep.Messages) > 0 {
		if ep.Messages[0].Role == "system" {
			ep.Instruction = ep.Messages[0].Content
		}
		i := slices.IndexFunc(ep.Messages, func(m data.Message) bool { return m.Role == "assistant" })
		if i > 0 {
			ep.FirstObservation = ep.Messages[i-1].Content
		}
	}
	if n := len(ep.Turns); n > 0 && outcome.Trainable() {
		ep.Turns[n-1].Done = true
	}
	return ep
}

func (s *Store) runningOf(e *episode) rollout.Running {
	return rollout.Running{Env: Env, Task: e.task.ID, UID: e.group.uid, Sample: e.sample, Attempt: e.attempt}
}

// observeEnd reports the end of an episode.
func (s *Store) observeEnd(st *step, e *episode, ep *data.Episode) {
	if st.o.Observer != nil {
		st.o.Observer.Ended(s.runningOf(e), ep)
	}
}
