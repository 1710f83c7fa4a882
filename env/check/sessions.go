package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file contains the checks of valid requests.

func checkGreeting(c *checker, n *notes) {
	r := request{method: "GET", target: "/"}
	got, err := c.root.do(c.ctx, fresh, r)
	c.count("greeting", got, err)
	switch {
	case errors.Is(err, errRefused):
		c.unreachable = true
		n.fail("%v", err)
		return
	case err != nil:
		n.fail("%v", err)
		return
	case got.status != 200:
		n.fail("%s: clients use this address as a health check", show(got))
	case c.env.spec.Greeting != "" && strings.Trim(strings.TrimSpace(string(got.body)), `"`) != c.env.spec.Greeting:
		n.warn("clients ignore the text, but this may be another environment's server", "%s", show(got))
	default:
		n.pass("%s", short(string(got.body), 60))
	}
	c.watchIdle(r)
}

func checkCreate(c *checker, n *notes) {
	s, ok := c.create(n)
	if !ok {
		return
	}
	c.sessions = append(c.sessions, s)
	n.pass("id %s", s.id)
}

// manySessions is the number of instances that are created concurrently, unless they are expensive.
const manySessions = 4

// oneAtATime is the reason for skipping checks of several instances.
const oneAtATime = "servers of this environment support one instance at a time, because all use the same account"

// concurrently makes the calls f(0) to f(times-1) at the same time. Each call writes its own notes,
// which are then appended to n in order.
func concurrently(n *notes, times int, f func(i int, n *notes)) {
	saw := make([]notes, times)
	var wg sync.WaitGroup
	for i := range times {
		wg.Go(func() { f(i, &saw[i]) })
	}
	wg.Wait()
	for _, s := range saw {
		n.all = append(n.all, s.all...)
	}
}

func checkIDs(c *checker, n *notes) {
	if c.env.spec.MaxInstances == 1 {
		n.skip(oneAtATime)
		return
	}
	if s, ok := c.create(n); ok {
		c.sessions = append(c.sessions, s)
	}
	if !c.env.slow {
		made := make([]session, manySessions)
		concurrently(n, manySessions, func(i int, n *notes) { made[i], _ = c.create(n) })
		c.sessions = append(c.sessions, slices.DeleteFunc(made, func(s session) bool { return s.id == "" })...)
	}
	seen := map[string]bool{}
	var ids []string
	for _, s := range c.sessions {
		if seen[s.id] {
			n.fail("id %s was returned twice: two clients would share one instance", s.id)
		}
		seen[s.id] = true
		ids = append(ids, s.id)
	}
	n.pass("%s", strings.Join(ids, ", "))
}

func checkReset(c *checker, n *notes) {
	if c.env.name == "wordle" {
		c.words, _ = c.requestVocabulary(n, c.sessions[0]) // AgentGym's client sends this before the first reset
	}
	for _, task := range c.env.tasks[:2] {
		v, ok := c.reset(n, c.sessions[0], task)
		if !ok {
			return
		}
		o, _ := v.(map[string]any)
		if done, _ := o[c.env.doneKey].(bool); done {
			n.fail("task %d is done before the first step", task)
		}
		if c.env.resetFailed != "" && observationOf(v) == c.env.resetFailed {
			n.fail("task %d could not be started: the reply's text is %q", task, c.env.resetFailed)
		}
		if id, ok := o["id"]; ok && fmt.Sprint(id) != unquote(c.sessions[0].id) {
			n.fail("the reply to id %s names id %v", c.sessions[0].id, id)
		}
		n.pass("%s", describe(v))
	}
}

func checkFirstText(c *checker, n *notes) {
	for _, task := range c.env.tasks[:2] {
		_, first, ok := c.begin(n, c.sessions[0], task)
		switch {
		case !ok:
			return
		case strings.TrimSpace(first) == "":
			n.fail("task %d: the first text is empty", task)
		case !c.env.opens.MatchString(first):
			n.fail("task %d: %q does not match the first text of AgentGym's server", task, short(first, 120))
		default:
			n.pass("%q", short(first, 80))
		}
	}
}

func checkStep(c *checker, n *notes) {
	v, ok := c.reset(n, c.sessions[0], c.env.tasks[0])
	ok = ok && c.episode(n, v, func(string, played) bool {
		c.playable = true
		return true
	})
	if ok {
		n.pass("%d steps", len(c.took["step"]))
	}
}

func checkObserve(c *checker, n *notes) {
	s := c.sessions[0]
	v, opening, ok := c.begin(n, s, c.env.tasks[0])
	if !ok {
		return
	}
	c.episode(n, v, func(action string, p played) bool {
		if p.done && !c.env.stepsAfterEnd {
			return false
		}
		seen, ok := c.observe(n, s)
		if !ok {
			return false
		}
		want, known := map[observedText]string{observedLast: p.text, observedFirst: opening}[c.env.observed]
		if known && bareText(seen) != want {
			n.fail("after %q the observation is %q, want %q", short(action, 40), short(bareText(seen), 80), short(want, 80))
		}
		n.pass("%s", describe(seen))
		return true
	})
}

func checkUnicode(c *checker, n *notes) {
	s, ok := c.restart(n)
	if !ok {
		return
	}
	for _, action := range []string{"", "é 漢字 😀 \"quoted\" \\ \n\ttwo lines", "a long action " + strings.Repeat("x ", 2000)} {
		if _, ok := c.play(n, s, action); ok {
			n.pass("answered")
		}
	}
}

func checkRepeatable(c *checker, n *notes) {
	for _, task := range c.env.tasks[:2] {
		first, ok := c.alone(n, c.sessions[0], task)
		if !ok {
			return
		}
		again, ok := c.alone(n, c.sessions[0], task)
		if !ok {
			return
		}
		if d := difference(first, again); d != "" {
			why := cmp.Or(c.env.varies, "lost episodes cannot be replayed, and sessions cannot be distinguished by their texts")
			n.warn(why, "%s", strings.NewReplacer("alone, ", "first, ", "together with another session, ", "then ").Replace(d))
			c.varying = why
		}
		c.solo = append(c.solo, first)
		n.pass("%d identical replies", len(first.replies))
	}
}

// checkIndex checks that two tasks differ.
func checkIndex(c *checker, n *notes) {
	if len(c.solo) < 2 {
		n.skip("two tasks could not be played")
		return
	}
	a, b := c.solo[0], c.solo[1]
	switch {
	case !slices.Equal(a.replies, b.replies):
		n.pass("tasks %d and %d differ", a.task, b.task)
	case c.env.name == own.name:
		n.warn("the server ignores the index, or these actions do not show the difference: choose --actions or --tasks that show it",
			"tasks %d and %d have the same replies", a.task, b.task)
	case c.o.Tasks != nil:
		n.warn("identical tasks cannot show whether the index is used; choose other tasks", "tasks %d and %d have the same replies", a.task, b.task)
	default:
		n.fail("tasks %d and %d have the same replies: the index seems to be ignored", a.task, b.task)
	}
}

// together first plays each session alone, then all sessions at once with the function
// run, which alternates or plays concurrently. It compares both lists of replies of each session.
func (c *checker) together(n *notes, sessions []session, run func(all []*transcript)) {
	switch {
	case len(sessions) < 2 && c.env.spec.MaxInstances == 1:
		n.skip(oneAtATime)
		return
	case len(sessions) < 2:
		n.skip("only one instance could be created")
		return
	case c.varying != "":
		n.skip("texts cannot be compared: " + c.varying)
		return
	}
	var alone, all []*transcript
	for i, s := range sessions {
		task := c.env.tasks[i%2]
		t, ok := c.alone(n, s, task)
		if !ok {
			return
		}
		alone, all = append(alone, t), append(all, c.transcript(s, task))
	}
	run(all)
	for i := range sessions {
		d := difference(alone[i], all[i])
		switch {
		case d == "":
		case c.env.varies != "":
			n.warn(c.env.varies, "session %s: %s", sessions[i].id, d)
		default:
			n.fail("session %s: %s", sessions[i].id, d)
		}
	}
	if slices.Equal(alone[0].replies, alone[1].replies) {
		n.warn("sessions with identical replies cannot be distinguished; choose other tasks", "tasks %d and %d have the same replies", c.env.tasks[0], c.env.tasks[1])
	}
	n.pass("%d sessions, %d replies each", len(sessions), len(alone[0].replies))
}

func checkTwoSessions(c *checker, n *notes) {
	c.together(n, c.sessions[:min(2, len(c.sessions))], func(all []*transcript) {
		for more := true; more; {
			more = false
			for _, t := range all {
				more = t.next(n) || more
			}
		}
	})
}

func checkMany(c *checker, n *notes) {
	c.together(n, c.sessions, func(all []*transcript) {
		concurrently(n, len(all), func(i int, n *notes) {
			for all[i].next(n) {
			}
		})
	})
}

func checkAfterDone(c *checker, n *notes) {
	if c.env.stepsAfterEnd {
		if p, ok := c.play(n, *c.ended, "Action: nothing"); ok {
			n.pass("%q, %s %t", short(p.text, 60), c.env.doneKey, p.done)
		}
		return
	}
	c.refused(n, "step", c.post("/step", c.stepBody(*c.ended, "look")))
	if c.env.observe != nil {
		c.refused(n, "observation", c.get("/observation", c.query(*c.ended)))
	}
}

func checkResetAfterDone(c *checker, n *notes) {
	if _, ok := c.reset(n, *c.ended, c.env.tasks[1]); ok {
		n.pass("reset")
	}
}

// latencyShare limits the time of the latency measurement.
const latencyShare = 10 * time.Second

func checkLatency(c *checker, n *notes) {
	began := time.Now()
	for made := 0; made < c.o.Steps && time.Since(began) < latencyShare; {
		v, ok := c.reset(n, c.sessions[0], c.env.tasks[0])
		ok = ok && c.episode(n, v, func(string, played) bool {
			made++
			return true
		})
		if !ok {
			return
		}
	}
	l := c.latencies()["step"]
	n.pass("a step takes %.1f ms (median of %d), 99%% at most %.1f ms", l.P50, l.Calls, l.P99)
}
