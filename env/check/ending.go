package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ending is a way to the end of an episode.
type ending struct {
	tasks []int // where it is tried, in turn; nil: the tasks of the check
	only  bool  // the way is known for these tasks alone
	wins  bool  // it reaches the goal, which nothing before is paid for
	// start is the first text, whatever its white space; "": it is not known.
	start string
	// action gives the nth action from 0, "" if it knows none; last is the text
	// seen before it.
	action func(c *checker, last string, n int) string
	// must reports whether by the protocol the answer p to the nth action is
	// that of an episode that has ended; last is the text before the action. A
	// server that says otherwise would let episodes go on for ever.
	must func(c *checker, n int, last string, p played) bool
	// exact says that no answer before that one is.
	exact bool
	// pays finds what is wrong with the reward of the last answer, "" if nothing
	// is. nil: the protocol does not tell what it is.
	pays func(p played) string
}

// checkEnd goes every way to the end that is known, but those to the goal.
func checkEnd(c *checker, n *notes) {
	c.end(n, slices.DeleteFunc(slices.Clone(c.env.endings), func(e ending) bool { return e.wins }))
}

// checkGoal goes every way to the goal that is known.
func checkGoal(c *checker, n *notes) {
	if c.env.unjudged != "" {
		n.skip("not judged: " + c.env.unjudged)
		return
	}
	c.end(n, slices.DeleteFunc(slices.Clone(c.env.endings), func(e ending) bool { return !e.wins }))
}

func (c *checker) end(n *notes, ways []ending) {
	var tried, known []int
	for _, e := range ways {
		known = append(known, e.tasks...)
		for _, task := range c.endingTasks(e) {
			tried = append(tried, task)
			if c.goes(n, e, task) {
				break
			}
		}
	}
	switch {
	case len(n.all) > 0:
	case len(tried) == 0:
		n.skip(fmt.Sprintf("not judged: a way is known for tasks %s, and not for those of --tasks", joined(known)))
	default:
		n.skip(fmt.Sprintf("not judged: no way to the end of tasks %s was found", joined(tried)))
	}
}

// joined lists numbers.
func joined(all []int) string {
	var words []string
	for _, n := range all {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// endingTasks are the tasks to try an ending on.
func (c *checker) endingTasks(e ending) []int {
	switch {
	case e.only && c.o.Tasks != nil:
		return slices.DeleteFunc(slices.Clone(e.tasks), func(task int) bool { return !slices.Contains(c.o.Tasks, task) })
	case e.tasks == nil || c.o.Tasks != nil:
		return c.env.tasks
	}
	return e.tasks
}

// goes tries an ending on a task; false means that it led nowhere there.
func (c *checker) goes(n *notes, e ending, task int) bool {
	s := c.sessions[0]
	v, ok := c.reset(n, s, task)
	if !ok {
		return true
	}
	last, ok := c.firstText(n, s, v)
	if !ok {
		return true
	}
	if !begins(last, e.start) {
		n.fail("task %d begins with %q, want %q", task, short(last, 100), short(e.start, 100))
		return true
	}
	for i := 0; ; i++ {
		action := e.action(c, last, i)
		if action == "" {
			return false
		}
		p, ok := c.play(n, s, action)
		if !ok {
			return true
		}
		must := e.must(c, i, last, p)
		last = p.text
		if !p.done {
			if must {
				n.fail("task %d is not over after %d steps, the last %q, answered %q: no episode would end", task, i+1, short(action, 40), short(p.text, 60))
				return true
			}
			if e.wins && p.reward != 0 {
				n.fail("task %d: step %d, %q, has reward %g before the goal", task, i+1, short(action, 40), p.reward)
				return true
			}
			continue
		}
		c.ended, c.final = &s, p.whole
		if e.exact && !must {
			n.fail("task %d is over after %d steps, the last %q, answered %q: too early", task, i+1, short(action, 40), short(p.text, 60))
			return true
		}
		if e.pays != nil {
			if fault := e.pays(p); fault != "" {
				n.fail("task %d ended with %q, answered %q: %s", task, short(action, 40), short(p.text, 60), fault)
				return true
			}
		}
		n.pass("task %d ended after %d steps with reward %g", task, i+1, p.reward)
		return true
	}
}

// atOnce says that any answer is the last, atStep that the nth is.

func atOnce(*checker, int, string, played) bool { return true }

func atStep(n int) func(*checker, int, string, played) bool {
	return func(_ *checker, i int, _ string, _ played) bool { return i+1 >= n }
}

// pays wants one of some rewards.
func pays(rewards ...float64) func(played) string {
	return func(p played) string {
		if slices.Contains(rewards, p.reward) {
			return ""
		}
		var want []string
		for _, r := range rewards {
			want = append(want, fmt.Sprint(r))
		}
		return fmt.Sprintf("reward %g, want %s", p.reward, strings.Join(want, " or "))
	}
}

// The ways of single environments.

// craftEnding makes the goal, which ends the task.
var craftEnding = ending{
	tasks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, wins: true, action: craftFinish,
	must: func(c *checker, n int, _ string, p played) bool {
		return n == len(c.plan)-1 && strings.HasPrefix(p.text, "Crafted ")
	},
	pays: pays(1),
}

// green says that wordle's word was guessed.
func green(p played) bool { return strings.TrimSpace(p.text) == "g g g g g" }

var wordleEndings = []ending{
	{tasks: []int{3}, action: repeat("zzzzz", 6), must: atStep(6), exact: true, pays: pays(0)},
	{ // words that are still possible: one is found, or the sixth ends it
		tasks: []int{3}, wins: true,
		action: func(c *checker, _ string, n int) string {
			left, ok := c.askVocabulary(&notes{}, c.sessions[0])
			if !ok || n >= 6 {
				return ""
			}
			return spaced(left[0])
		},
		must:  func(_ *checker, n int, _ string, p played) bool { return green(p) || n >= 5 },
		exact: true,
		pays: func(p played) string {
			if green(p) {
				return pays(1)(p)
			}
			return pays(0)(p)
		},
	},
}

// sqlEndings: any statement ends a task, and what the server says is right
// has to be paid, where it can be carried out.
var sqlEndings = []ending{
	{tasks: []int{9428}, action: repeat("SELECT 'no reference has this result'", 1), must: atOnce, pays: pays(0)},
	{
		tasks: []int{9428}, wins: true,
		action: func(c *checker, _ string, n int) string {
			o, _ := c.final.(map[string]any)
			if n > 0 {
				return ""
			}
			return field(o["info"], "ground_truth")
		},
		must: atOnce,
		pays: func(p played) string {
			if strings.HasPrefix(p.text, "[") {
				return pays(1)(p)
			}
			return pays(0, 1)(p)
		},
	},
}

// toolEnding is the finish of the tool servers. A call that raises an error
// ends nothing.
func toolEnding(action string, pays func(played) string) ending {
	return ending{
		tasks: []int{0}, action: repeat(action, 1), pays: pays,
		must: func(_ *checker, _ int, _ string, p played) bool {
			return !strings.Contains(p.text, "ERROR |") && !strings.HasPrefix(p.text, "Format error")
		},
	}
}
