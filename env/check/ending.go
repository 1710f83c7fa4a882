package check

import (
	"fmt"
	"slices"
	"strings"
)

// ending is a sequence of actions that ends an episode.
type ending struct {
	tasks []int // tasks to try in order; nil: environment.tasks
	only  bool  // the actions are valid for these tasks only
	wins  bool  // whether the last action reaches the goal; earlier steps have reward 0
	// start is the beginning of the first text, compared without regard to white
	// space; "": any.
	start string
	// action returns action n, counted from 0, or "" after the last action. last is
	// the latest text.
	action func(c *checker, last string, n int) string
	// mustEnd reports whether the episode must end with the reply p to action n. last is
	// the text before the action.
	mustEnd func(c *checker, n int, last string, p played) bool
	// exact forbids an earlier end of the episode.
	exact bool
	// checkReward checks the reward of the last reply and returns the fault, or "". The
	// function is nil if the protocol does not define the reward.
	checkReward func(p played) string
}

// checkEnd plays every known ending that does not reach the goal.
func checkEnd(c *checker, n *notes) {
	c.end(n, slices.DeleteFunc(slices.Clone(c.env.endings), func(e ending) bool { return e.wins }))
}

// checkGoal plays every known solution.
func checkGoal(c *checker, n *notes) {
	if c.env.noSolution != "" {
		n.skip("not judged: " + c.env.noSolution)
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
			if c.playEnding(n, e, task) {
				break
			}
		}
	}
	switch {
	case len(n.all) > 0:
	case len(tried) == 0:
		n.skip(fmt.Sprintf("not judged: solutions are known for tasks %d, but not for those of --tasks", known))
	default:
		n.skip(fmt.Sprintf("not judged: tasks %d could not be played to an end", tried))
	}
}

// endingTasks returns the tasks on which e is tried.
func (c *checker) endingTasks(e ending) []int {
	switch {
	case e.only && c.o.Tasks != nil:
		return slices.DeleteFunc(slices.Clone(e.tasks), func(task int) bool { return !slices.Contains(c.o.Tasks, task) })
	case e.tasks == nil || c.o.Tasks != nil:
		return c.env.tasks
	}
	return e.tasks
}

// playEnding plays an ending on a task. It returns false if the actions do not apply to
// the task.
func (c *checker) playEnding(n *notes, e ending, task int) bool {
	s := c.sessions[0]
	_, last, ok := c.begin(n, s, task)
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
		must := e.mustEnd(c, i, last, p)
		last = p.text
		if p.done {
			c.ended, c.final = &s, p.reply
		}
		fault := ""
		switch {
		case !p.done && must:
			fault = fmt.Sprintf("not ended after %d steps: episodes would never end", i+1)
		case !p.done && e.wins && p.reward != 0:
			fault = fmt.Sprintf("reward %g, want 0 before the goal", p.reward)
		case !p.done:
			continue
		case e.exact && !must:
			fault = "the task ended too early"
		case e.checkReward != nil:
			fault = e.checkReward(p)
		}
		if fault == "" {
			n.pass("task %d ended after %d steps with reward %g", task, i+1, p.reward)
		} else {
			n.fail("task %d, step %d, %q with reply %q: %s", task, i+1, short(action, 40), short(p.text, 60), fault)
		}
		return true
	}
}

// atOnce is an ending.mustEnd: every reply must end the episode.
func atOnce(*checker, int, string, played) bool { return true }

// atStep returns an ending.mustEnd: the reply to step n must end the episode.
func atStep(n int) func(*checker, int, string, played) bool {
	return func(_ *checker, i int, _ string, _ played) bool { return i+1 >= n }
}

// rewardIn returns an ending.checkReward that accepts any of the rewards.
func rewardIn(rewards ...float64) func(played) string {
	return func(p played) string {
		if slices.Contains(rewards, p.reward) {
			return ""
		}
		return fmt.Sprintf("reward %g, want %s", p.reward, strings.Trim(fmt.Sprint(rewards), "[]"))
	}
}

// The rest of this file contains the endings of single environments.

// craftEnding crafts the goal of a textcraft task, which ends the task.
var craftEnding = ending{
	tasks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, wins: true, action: craftFinish,
	mustEnd: func(c *checker, n int, _ string, p played) bool {
		return n == len(c.plan)-1 && strings.HasPrefix(p.text, "Crafted ")
	},
	checkReward: rewardIn(1),
}

// green reports whether wordle's word was guessed.
func green(p played) bool { return strings.TrimSpace(p.text) == "g g g g g" }

var wordleEndings = []ending{
	{tasks: []int{3}, action: repeat("zzzzz", 6), mustEnd: atStep(6), exact: true, checkReward: rewardIn(0)},
	{ // guess possible words until a guess is right or the sixth guess ends the game
		tasks: []int{3}, wins: true,
		action: func(c *checker, _ string, n int) string {
			left, ok := c.requestVocabulary(&notes{}, c.sessions[0])
			if !ok || n >= 6 {
				return ""
			}
			return spaced(left[0])
		},
		mustEnd: func(_ *checker, n int, _ string, p played) bool { return green(p) || n >= 5 },
		exact:   true,
		checkReward: func(p played) string {
			if green(p) {
				return rewardIn(1)(p)
			}
			return rewardIn(0)(p)
		},
	},
}

// sqlEndings plays a wrong statement, whose reply contains the ground truth, and then the ground
// truth. A server that can execute the ground truth must reward it. Every statement ends a task.
var sqlEndings = []ending{
	{tasks: []int{9428}, action: repeat("SELECT 'no reference has this result'", 1), mustEnd: atOnce, checkReward: rewardIn(0)},
	{
		tasks: []int{9428}, wins: true,
		action: func(c *checker, _ string, n int) string {
			o, _ := c.final.(map[string]any)
			if n > 0 {
				return ""
			}
			return field(o["info"], "ground_truth")
		},
		mustEnd: atOnce,
		checkReward: func(p played) string {
			if strings.HasPrefix(p.text, "[") {
				return rewardIn(1)(p)
			}
			return rewardIn(0, 1)(p)
		},
	},
}

// toolEnding returns the ending of a tool server by its finish action. An action that
// raises an error does not end the episode.
func toolEnding(action string, checkReward func(played) string) ending {
	return ending{
		tasks: []int{0}, action: repeat(action, 1), checkReward: checkReward,
		mustEnd: func(_ *checker, _ int, _ string, p played) bool {
			return !strings.Contains(p.text, "ERROR |") && !strings.HasPrefix(p.text, "Format error")
		},
	}
}
