package check

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// create creates an instance.
func (c *checker) create(n *notes) (session, bool) {
	v, ok := c.require(n, "create", c.post("/create", c.env.createBody), c.env.created)
	if !ok {
		return session{}, false
	}
	return session{c.keep(v)}, true
}

// unquote returns an id in the form used in a query.
func unquote(id string) string {
	var s string
	if json.Unmarshal([]byte(id), &s) == nil {
		return s
	}
	return id
}

// unknownSession returns a session with an id that no server assigns.
func (c *checker) unknownSession() session {
	if c.sessions[0].named() {
		return session{`"00000000-0000-4000-8000-000000000000"`}
	}
	return session{"987654321"}
}

// resetBody and stepBody return the bodies of /reset and /step. The id is the last key, as in
// AgentGym's clients.
func (c *checker) resetBody(s session, task int) string {
	more := ""
	if c.env.resetMore != "" {
		more = c.env.resetMore + ","
	}
	return fmt.Sprintf(`{%q:%d,%s%q:%s}`, c.env.taskKey, task, more, c.env.idKey, s.id)
}

func (c *checker) stepBody(s session, action string) string {
	a, err := json.Marshal(action)
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	return fmt.Sprintf(`{"action":%s,%q:%s}`, a, c.env.idKey, s.id)
}

func (c *checker) reset(n *notes, s session, task int) (any, bool) {
	return c.require(n, "reset", c.post("/reset", c.resetBody(s, task)), c.env.reset)
}

// restart resets the first session to the first task.
func (c *checker) restart(n *notes) (session, bool) {
	s := c.sessions[0]
	_, ok := c.reset(n, s, c.env.tasks[0])
	return s, ok
}

// played is the decoded reply to a step.
type played struct {
	text   string
	reward float64
	score  float64 // 0 if the reply has no score
	done   bool
	reply  any
}

// play sends one step and checks the range of its rewards.
func (c *checker) play(n *notes, s session, action string) (played, bool) {
	v, ok := c.require(n, "step", c.post("/step", c.stepBody(s, action)), c.env.step)
	if !ok {
		return played{}, false
	}
	p := c.env.playedOf(v)
	for _, reward := range []float64{p.reward, p.score} {
		if fault := c.env.rangeFault(reward); fault != "" {
			n.fail("%q: %s", short(action, 40), fault)
			break
		}
	}
	return p, true
}

// rangeFault returns the fault of a reward outside the environment's range, or "".
func (e environment) rangeFault(reward float64) string {
	if reward >= e.rewards[0] && reward <= e.rewards[1] {
		return ""
	}
	return fmt.Sprintf("reward %g, want %g to %g", reward, e.rewards[0], e.rewards[1])
}

// playedOf converts a reply that has the shape of a step.
func (e environment) playedOf(v any) played {
	o := v.(map[string]any)
	p := played{text: field(v, e.textKey), reply: v}
	p.done, _ = o[e.doneKey].(bool)
	if r, ok := o["reward"].(json.Number); ok {
		p.reward, _ = strconv.ParseFloat(string(r), 64)
	}
	if r, ok := o["score"].(json.Number); ok {
		p.score, _ = strconv.ParseFloat(string(r), 64)
	}
	return p
}

func (c *checker) observe(n *notes, s session) (any, bool) {
	return c.require(n, "observe", c.get("/observation", c.query(s)), c.env.observe)
}

// firstText returns the first observation after a reset.
func (c *checker) firstText(n *notes, s session, reset any) (string, bool) {
	if c.env.opening != nil {
		return c.env.opening(reset), true
	}
	v, ok := c.observe(n, s)
	return bareText(v), ok
}

// begin resets a session to a task. It returns the reply and the first observation.
func (c *checker) begin(n *notes, s session, task int) (reset any, first string, ok bool) {
	if reset, ok = c.reset(n, s, task); ok {
		first, ok = c.firstText(n, s, reset)
	}
	return reset, first, ok
}

// episode plays the environment's actions on the first session. reset is the reply to
// the session's reset. episode calls the function see with each action and reply, and
// stops when see returns false. episode returns false after a failure.
func (c *checker) episode(n *notes, reset any, see func(action string, p played) bool) bool {
	for _, action := range c.env.actions(c, reset) {
		p, ok := c.play(n, c.sessions[0], action)
		if !ok {
			return false
		}
		if !see(action, p) || p.done && !c.env.stepsAfterEnd {
			break
		}
	}
	return true
}

// transcript plays a task step by step and records the replies without the
// instance's id, so that two transcripts can be compared.
type transcript struct {
	c       *checker
	s       session
	task    int
	actions []string
	at      int // number of actions played; -1: the reset was not played yet
	over    bool
	replies []string
}

func (c *checker) transcript(s session, task int) *transcript {
	return &transcript{c: c, s: s, task: task, at: -1}
}

// next plays the reset or the next action. It returns false after the last action or a failure.
func (t *transcript) next(n *notes) bool {
	if t.over || t.at >= 0 && t.at >= len(t.actions) {
		return false
	}
	if !t.play(n) {
		t.over = true
		return false
	}
	return true
}

func (t *transcript) play(n *notes) bool {
	if t.at < 0 {
		v, ok := t.c.reset(n, t.s, t.task)
		if !ok {
			return false
		}
		t.actions = t.c.env.actions(t.c, v)
		t.record("reset", v)
	} else {
		p, ok := t.c.play(n, t.s, t.actions[t.at])
		if !ok {
			return false
		}
		t.record(fmt.Sprintf("step %q", short(t.actions[t.at], 40)), p.reply)
		t.over = p.done && !t.c.env.stepsAfterEnd
	}
	t.at++
	if t.c.env.observe == nil || t.over {
		return true
	}
	v, ok := t.c.observe(n, t.s)
	if ok {
		t.record("observe", v)
	}
	return ok
}

func (t *transcript) record(what string, v any) {
	if o, ok := v.(map[string]any); ok {
		delete(o, "id")
		delete(o, t.c.env.idKey)
	}
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(err.Error())
	}
	t.replies = append(t.replies, what+" returned "+string(b))
}

// alone plays a whole task on one session while no other session is active.
func (c *checker) alone(n *notes, s session, task int) (*transcript, bool) {
	t := c.transcript(s, task)
	var own notes
	for t.next(&own) {
	}
	n.all = append(n.all, own.all...)
	st, _, _ := own.sum()
	return t, st != Fail
}

// difference returns the first difference between the replies of a task played alone
// and together with other sessions, or "".
func difference(alone, together *transcript) string {
	for i, want := range alone.replies {
		if i >= len(together.replies) {
			return fmt.Sprintf("%s; then no reply", short(want, 120))
		}
		if got := together.replies[i]; got != want {
			return fmt.Sprintf("alone, %s; together with another session, %s", cutAround(want, got), cutAround(got, want))
		}
	}
	return ""
}

// cutAround returns the part of s around its first difference from t.
func cutAround(s, t string) string {
	i := 0
	for i < len(s) && i < len(t) && s[i] == t[i] {
		i++
	}
	if i <= 80 {
		return short(s, 140)
	}
	return short(s, 40) + short(s[i-20:], 80)
}
