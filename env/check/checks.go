package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// checks lists the checks in the order of Run: later checks use the instances of
// earlier ones, and closing comes last.
var checks = []check{
	{name: "greeting", section: "2.1", run: checkGreeting,
		expects: func(e environment) string {
			if e.spec.Greeting == "" {
				return "GET / answers with status 200"
			}
			return fmt.Sprintf("GET / answers with status 200 and %q", e.spec.Greeting)
		}},
	{name: "create", run: checkCreate,
		expects: func(e environment) string { return "POST /create answers " + e.created.String() }},
	{name: "ids", section: "2.5", need: needInstance, run: checkIDs,
		expected: "every create returns a new id, also for concurrent requests"},
	{name: "reset", need: needInstance, run: checkReset,
		expects: func(e environment) string { return "POST /reset answers " + e.reset.String() + ", not done" }},
	{name: "first text", need: needInstance, run: checkFirstText,
		expects: func(e environment) string {
			return "the first text matches " + strings.TrimPrefix(e.opens.String(), "(?s)")
		}},
	{name: "step", need: needInstance, run: checkStep,
		expects: func(e environment) string {
			return fmt.Sprintf("POST /step answers %s, reward from %g to %g", e.step, e.rewards[0], e.rewards[1])
		}},
	{name: "observe", need: needPlay, run: checkObserve, applies: func(e environment) bool { return e.observe != nil },
		expects: func(e environment) string {
			return "GET /observation answers " + e.observe.String() + map[observedText]string{observedLast: ", the last text", observedFirst: ", the task's text, independent of the steps"}[e.observed]
		}},
	{name: extra, need: needInstance, applies: func(e environment) bool { return e.extra.run != nil }},
	{name: "any text", need: needPlay, run: checkUnicode, section: "2.3",
		expected: "an empty, long or non-ASCII action gets a normal reply"},
	{name: "repeatable", need: needPlay, run: checkRepeatable, section: "2.5",
		expected: "the same task and actions give the same texts"},
	{name: "task index", need: needPlay, run: checkIndex, section: "1.4",
		expected: "different indices give different tasks"},
	{name: "two sessions", need: needPlay, run: checkTwoSessions, section: "2.5",
		expected: "two alternating sessions give the same replies as each alone"},
	{name: "many at once", need: needPlay, run: checkMany, section: "2.5",
		expected: "concurrent sessions give the same replies as each alone"},
	{name: "end of episode", need: needPlay, run: checkEnd, section: "1.3",
		applies: func(e environment) bool {
			return slices.ContainsFunc(e.endings, func(way ending) bool { return !way.wins })
		},
		expects: func(e environment) string {
			return fmt.Sprintf("a task can be played to its end, with %q true and the right reward", e.doneKey)
		}},
	{name: "reward at the goal", need: needPlay, run: checkGoal, section: "1.3",
		expected: "a recorded solution ends the task at its last action with the recorded reward"},
	{name: "step after done", need: needEnd, run: checkAfterDone, applies: func(e environment) bool { return e.endings != nil }, section: "1.3",
		expects: func(e environment) string {
			if !e.stepsAfterEnd {
				return `status 200 with {"error": "The task with environment N has finished."}`
			}
			return "a normal reply: the client decides when to stop"
		}},
	{name: "reset after done", need: needEnd, run: checkResetAfterDone, applies: func(e environment) bool { return e.endings != nil }, section: "11.12",
		expected: "an instance can be reset after its episode has ended"},
	{name: "task out of range", need: needPlay, run: checkBeyond, section: "2.3", applies: func(e environment) bool { return e.beyond != 0 },
		expects: func(e environment) string {
			return fmt.Sprintf("a reset to task %d is rejected with %s", e.beyond, e.unknown)
		}},
	{name: "unknown id", need: needPlay, run: checkUnknownID, section: "2.3",
		expects: func(e environment) string {
			return "reset, step and observation of an unknown id: " + e.unknown.String()
		}},
	{name: "malformed JSON", need: needPlay, run: checkMalformed, section: "2.3", applies: notQuart,
		expected: "status 422"},
	{name: "missing fields", need: needPlay, run: checkMissing, section: "2.3", applies: notQuart,
		expected: "status 422"},
	{name: "wrong types", need: needPlay, run: checkTypes, section: "2.3", applies: notQuart,
		expected: "status 422 for a non-numeric id and for an action that is not a string"},
	{name: "422 dialect", need: needPlay, run: checkDialect, section: "11.2", applies: notQuart,
		expected: `{"detail": [{"type", "loc", "msg", "input"}]}, the format of pydantic 2`},
	{name: "content type", need: needPlay, run: checkContentType, section: "11.1", applies: notQuart,
		expected: "text/plain gives status 422; application/json; charset=utf-8 is accepted"},
	{name: "create without body", run: checkBodyNeeded, section: "2.3", applies: func(e environment) bool { return e.createBody != "" && !e.noDialect },
		expected: "status 422"},
	{name: "unknown path", run: wrongAddress("GET", "/no_such_endpoint", 404), section: "2.3",
		expected: `status 404 with {"detail": "Not Found"}`},
	{name: "wrong method", run: wrongAddress("GET", "/create", 405), section: "2.3",
		expected: `status 405 with {"detail": "Method Not Allowed"}`},
	{name: "slash at the end", run: wrongAddress("POST", "/create/", 307, 308, 404), section: "11.5",
		expected: "POST /create/ is redirected (307) or not found"},
	{name: "double slash", run: wrongAddress("POST", "//create", 404), section: "2.2",
		expected: "POST //create is not found (404)"},
	{name: "latency", need: needPlay, run: checkLatency, section: "11",
		expected: "every call completes within the time limit"},
	{name: "close", need: needPlay, run: checkClose, section: "11.6",
		expects: func(e environment) string { return e.closing.String() }},
	{name: "instance limit", need: needPlay, run: checkLimit, section: "2.5", applies: func(e environment) bool { return e.limit > 0 },
		expected: "create never returns an id that is in use"},
	{name: "lengths", run: checkLengths, section: "11.13",
		expected: "every reply has a Content-Length"},
	{name: "keep-alive", run: checkKeepAlive, section: "11.13",
		expected: fmt.Sprintf("a connection serves several requests and stays open for %v without requests", env.IdleTimeout)},
}

func notQuart(e environment) bool { return !e.quart && !e.noDialect }

// String describes the server's reply to a request that it rejects.
func (f errorForm) String() string {
	switch f {
	case errorObject:
		return `status 200 with {"error": string}`
	case errorServer:
		return "status 500, plain text"
	}
	return `status 404 with {"detail": string}`
}

// String describes the replies to two closes of one instance.
func (k closing) String() string {
	switch k {
	case closeBool:
		return "POST /close answers true, the second time false; a closed id is rejected"
	case closeOnce:
		return "POST /close answers true; a closed id is rejected"
	case closeObject:
		return `POST /close answers {"closed": string}`
	case closeAny:
		return "POST /close answers JSON; a closed id is rejected"
	}
	return "POST /close frees the instance"
}

// refused sends a request that the environment must reject and judges the reply.
func (c *checker) refused(n *notes, what string, r request) {
	got, ok := c.bad(n, what, r)
	if !ok {
		return
	}
	v, decodeErr := decode(got.body)
	word, isError := errorText(v)
	switch {
	case got.status == 200 && decodeErr != nil:
		n.fail("%s: %s: invalid JSON", what, show(got))
	case got.status == 200 && isError && c.env.unknown == errorObject:
		n.pass("%s: the error %q", what, short(word, 60))
	case got.status == 200 && isError:
		n.warn("clients understand an error object; AgentGym's server sends another reply", "%s: the error %q", what, short(word, 60))
	case got.status == 200:
		n.fail("%s: accepted: %s", what, short(string(got.body), 80))
	case looksLikeHTML(got.body) && !c.env.quart:
		n.fail("%s: %s", what, show(got))
	case got.status >= 400 && got.status < 500 && c.env.unknown == errorDetail && got.status == 404:
		n.pass("%s: %s", what, show(got))
	case got.status >= 400 && got.status < 500 && !(decodeErr != nil && strings.HasPrefix(got.header.Get("Content-Type"), "application/json")):
		n.warn("clients treat it as a rejected request; AgentGym's server replies otherwise", "%s: %s", what, show(got))
	case got.status == 500 && c.env.unknown == errorServer:
		n.warn("AgentGym's server does the same; clients cannot distinguish it from a broken server", "%s: %s", what, show(got))
	default:
		n.fail("%s: %s", what, show(got))
	}
}
