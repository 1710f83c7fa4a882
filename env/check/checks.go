package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// checks is what Run goes through, in this order: later ones use what earlier
// ones have made, and closing comes last.
var checks = []check{
	{name: "greeting", section: "2.1", run: checkGreeting,
		expected: func(e environment) string {
			if e.greeting == "" {
				return "GET / answers with status 200"
			}
			return fmt.Sprintf("GET / answers with status 200 and %q", e.greeting)
		}},
	{name: "create", run: checkCreate,
		expected: func(e environment) string { return "POST /create answers " + e.created.String() }},
	{name: "ids", section: "2.5", need: needInstance, run: checkIDs,
		expected: func(environment) string { return "every create gives another id, also when several arrive at once" }},
	{name: "reset", need: needInstance, run: checkReset,
		expected: func(e environment) string { return "POST /reset answers " + e.reset.String() + ", not done" }},
	{name: "first text", need: needInstance, run: checkFirstText,
		expected: func(e environment) string {
			return "the first text is like " + strings.TrimPrefix(e.opens.String(), "(?s)")
		}},
	{name: "step", need: needInstance, run: checkStep,
		expected: func(e environment) string {
			return fmt.Sprintf("POST /step answers %s, reward from %g to %g", e.step, e.rewards[0], e.rewards[1])
		}},
	{name: "observe", need: needPlay, run: checkObserve, applies: func(e environment) bool { return e.observe != nil },
		expected: func(e environment) string {
			return "GET /observation answers " + e.observe.String() + map[says]string{saysLast: ", the last text", saysOpening: ", the task's text, whatever steps were made"}[e.observeSays]
		}},
	{need: needInstance, applies: func(e environment) bool { return e.extra != nil },
		expected: func(e environment) string { return e.extra.expected },
		run:      func(c *checker, n *notes) { c.env.extra.run(c, n) }},
	{name: "any text", need: needPlay, run: checkUnicode, section: "2.3",
		expected: func(environment) string {
			return "an action that is empty, long, or not ASCII is answered like any other"
		}},
	{name: "repeatable", need: needPlay, run: checkRepeatable, section: "2.5",
		expected: func(environment) string { return "the same task and actions give the same texts again" }},
	{name: "task index", need: needPlay, run: checkIndex, section: "1.4",
		expected: func(environment) string { return "another index gives another task" }},
	{name: "two sessions", need: needPlay, run: checkTwoSessions, section: "2.5",
		expected: func(environment) string { return "two sessions in turn each go on as they do alone" }},
	{name: "many at once", need: needPlay, run: checkMany, section: "2.5",
		expected: func(environment) string { return "sessions played at the same time each go on as they do alone" }},
	{name: "end of episode", need: needPlay, run: checkEnd, section: "1.3",
		applies: func(e environment) bool {
			return slices.ContainsFunc(e.endings, func(way ending) bool { return !way.wins })
		},
		expected: func(e environment) string {
			return fmt.Sprintf("a task can be played to its end, %q true, with the reward it should have", e.doneKey)
		}},
	{name: "reward at the goal", need: needPlay, run: checkGoal, section: "1.3",
		expected: func(environment) string {
			return "a task that is solved as recorded ends with the last action, which has the recorded reward"
		}},
	{name: "step after done", need: needPlay, run: checkAfterDone, applies: func(e environment) bool { return e.endings != nil }, section: "1.3",
		expected: func(e environment) string {
			if e.over == overRefused {
				return `status 200 with {"error": "The task with environment N has finished."}`
			}
			return "a reply like any other: the client is the one to stop"
		}},
	{name: "reset after done", need: needPlay, run: checkResetAfterDone, applies: func(e environment) bool { return e.endings != nil }, section: "11.12",
		expected: func(environment) string { return "an instance whose episode has ended can be reset" }},
	{name: "task out of range", need: needPlay, run: checkBeyond, section: "2.3", applies: func(e environment) bool { return e.beyond != 0 },
		expected: func(e environment) string {
			return fmt.Sprintf("a reset to task %d is refused with %s", e.beyond, e.unknown)
		}},
	{name: "unknown id", need: needPlay, run: checkUnknownID, section: "2.3",
		expected: func(e environment) string {
			return "reset, step and observation of an id never given: " + e.unknown.String()
		}},
	{name: "malformed JSON", need: needPlay, run: checkMalformed, section: "2.3", applies: notQuart,
		expected: func(environment) string { return "status 422" }},
	{name: "missing fields", need: needPlay, run: checkMissing, section: "2.3", applies: notQuart,
		expected: func(environment) string { return "status 422" }},
	{name: "wrong types", need: needPlay, run: checkTypes, section: "2.3", applies: notQuart,
		expected: func(environment) string {
			return "status 422 for an id that is no number, and for an action that is none"
		}},
	{name: "422 dialect", need: needPlay, run: checkDialect, section: "11.2", applies: notQuart,
		expected: func(environment) string {
			return `{"detail": [{"type", "loc", "msg", "input"}]}, as pydantic 2 writes it`
		}},
	{name: "content type", need: needPlay, run: checkContentType, section: "11.1", applies: notQuart,
		expected: func(environment) string {
			return "text/plain gives status 422; application/json; charset=utf-8 is taken as JSON"
		}},
	{name: "create without body", run: checkBodyNeeded, section: "2.3", applies: func(e environment) bool { return e.createBody != "" },
		expected: func(environment) string { return "status 422" }},
	{name: "unknown path", run: checkPath, section: "2.3",
		expected: func(environment) string { return `status 404 with {"detail": "Not Found"}` }},
	{name: "wrong method", run: checkMethod, section: "2.3",
		expected: func(environment) string { return `status 405 with {"detail": "Method Not Allowed"}` }},
	{name: "slash at the end", run: checkSlash, section: "11.5",
		expected: func(environment) string { return "POST /create/ is redirected (307) or not found" }},
	{name: "double slash", run: checkDoubleSlash, section: "2.2",
		expected: func(environment) string { return "POST //create is not found (404)" }},
	{name: "latency", need: needPlay, run: checkLatency, section: "11",
		expected: func(environment) string { return "every call is answered within the time limit" }},
	{name: "close", need: needPlay, run: checkClose, section: "11.6",
		expected: func(e environment) string { return e.closing.String() }},
	{name: "instance limit", need: needPlay, run: checkLimit, section: "2.5", applies: func(e environment) bool { return e.limit > 0 },
		expected: func(e environment) string { return "a create never gives an id that is in use" }},
	{name: "lengths", run: checkLengths, section: "11.13",
		expected: func(environment) string { return "every reply has a Content-Length" }},
	{name: "keep-alive", run: checkKeepAlive, section: "11.13",
		expected: func(environment) string {
			return fmt.Sprintf("a connection serves several requests and outlives a pause of %v between two", env.IdleTimeout)
		}},
}

func notQuart(e environment) bool { return !e.quart }

// String says what a refusal looks like.
func (f errorForm) String() string {
	switch f {
	case errorObject:
		return `status 200 with {"error": string}`
	case errorServer:
		return "status 500, plain text"
	}
	return `status 404 with {"detail": string}`
}

// String says what closing twice answers.
func (k closing) String() string {
	switch k {
	case closeBool:
		return "POST /close answers true, the second time false; a closed id is refused"
	case closeOnce:
		return "POST /close answers true; a closed id is refused"
	case closeObject:
		return `POST /close answers {"closed": string}`
	}
	return "POST /close gives an instance back"
}

// refused judges the answer to something the environment cannot do.
func (c *checker) refused(n *notes, what string, r request) {
	got, err := c.send(opBad, r)
	if err != nil {
		n.fail("%s: %v", what, err)
		return
	}
	v, decodeErr := decode(got.body)
	word, isError := errorText(v)
	switch {
	case got.status == 200 && decodeErr != nil:
		n.fail("%s: %s: no JSON", what, show(got))
	case got.status == 200 && isError && c.env.unknown == errorObject:
		n.pass("%s: the error %q", what, short(word, 60))
	case got.status == 200 && isError:
		n.warn("clients understand an error object; AgentGym's own server has none here", "%s: the error %q", what, short(word, 60))
	case got.status == 200:
		n.fail("%s: answered as if nothing were wrong: %s", what, short(string(got.body), 80))
	case looksLikeHTML(got.body) && !c.env.quart:
		n.fail("%s: %s", what, show(got))
	case got.status >= 400 && got.status < 500 && c.env.unknown == errorDetail && got.status == 404:
		n.pass("%s: %s", what, show(got))
	case got.status >= 400 && got.status < 500 && !(decodeErr != nil && strings.HasPrefix(got.header.Get("Content-Type"), "application/json")):
		n.warn("clients take it as a refused request, which it is, though AgentGym's own server answers otherwise", "%s: %s", what, show(got))
	case got.status == 500 && c.env.unknown == errorServer:
		n.warn("AgentGym's own server answers so; a client cannot tell it from a server that is broken", "%s: %s", what, show(got))
	default:
		n.fail("%s: %s", what, show(got))
	}
}
