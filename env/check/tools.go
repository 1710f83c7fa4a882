package check

import (
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env"
)

// The others: webshop and sqlgym with their bare ids and pairs, the five tool
// servers and searchqa with their bare texts, webarena, and gaia (rev B). All
// but the last answer what they cannot do with status 500.

var tools = []environment{
	{
		name: "webshop", section: "5.7", greeting: "ok", created: natural, idKey: "env_idx",
		taskKey: "session_id", tasks: []int{0, 1}, beyond: 1000000,
		reset: pairReply, opening: firstOf, opens: regexp.MustCompile(`^WebShop \[SEP\] Instruction: \[SEP\] .* \[SEP\] Search$`),
		step: stateReply, textKey: "state", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysLast,
		actions: always("search[shoes]", "click[back to search]", "search[mug]"),
		endings: []ending{{
			tasks: []int{0},
			action: func(_ *checker, last string, n int) string {
				switch n {
				case 0:
					return "search[shoes]"
				case 1:
					if asin := regexp.MustCompile(`\bB[0-9A-Z]{9}\b`).FindString(last); asin != "" {
						return "click[" + asin + "]"
					}
				case 2:
					return "click[buy now]"
				}
				return ""
			},
			must: func(_ *checker, n int, last string, _ played) bool {
				return n == 2 && strings.Contains(last, "Buy Now")
			},
		}},
		unjudged: "what a purchase is worth depends on goals that a server makes of its products, so the reward is only held against its range",
		over:     overGoesOn, unknown: errorServer, closing: closeNone, slow: true, retry503: true,
		extra: &extra{
			"actions", `GET /available_actions answers {"has_search_bar": true or false, "clickables": [string, ...]}`,
			func(c *checker, n *notes) {
				s, ok := c.restart(n, 0)
				if !ok {
					return
				}
				if v, ok := c.want(n, "observe", c.get("/available_actions", c.query(s)), keys{{"has_search_bar", boolean}, {"clickables", every{text}}}); ok {
					n.pass("%s", describe(v))
				}
			},
		},
	},
	{
		name: "sqlgym", section: "5.9", greeting: "ok", created: natural, idKey: "env_idx",
		taskKey: "item_id", tasks: []int{9428, 9429}, beyond: 1000000,
		reset: pairReply, opening: firstOf, opens: regexp.MustCompile(`(?s)^.* contains tables such as .*\n\n.+`),
		step:    keys{{"state", text}, {"reward", number}, {"done", boolean}, {"info", keys{{"ground_truth", text}}}},
		textKey: "state", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions: always("SELECT 1", "SELECT 2, 'two'"),
		endings: sqlEndings, over: overGoesOn,
		unknown: errorServer, closing: closeNone, limit: 8, retry503: true,
	},
	toolServer("weather", "Action: get_user_current_date with Action Input: {}"),
	toolServer("movie", env.ListTools),
	toolServer("academia", env.ListTools),
	toolServer("todo", env.ListTools),
	sheetServer(),
	{
		name: "searchqa", section: "5.11", greeting: "ok", createBody: `{"id":0}`, created: natural, idKey: "env_idx",
		taskKey: "id", tasks: []int{0, 1}, beyond: 1000000,
		reset: text, opening: bareText, opens: regexp.MustCompile(`(?s)Question: .+`),
		step:    keys{{"observation", text}, {"reward", number}, {"done", boolean}, {"info", whole}},
		textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions:  always("nothing", "<answer>no such answer as this</answer>"),
		unjudged: "the answers to its questions are not known here, so the reward for a right one is taken on trust",
		over:     overGoesOn, unknown: errorServer, closing: closeBool,
	},
	{
		name: "webarena", section: "5.8", greeting: "ok", created: keys{{"env_idx", natural}}, idFrom: "env_idx", idKey: "env_idx",
		taskKey: "idx", resetMore: `"seed":0`, tasks: []int{0, 1},
		reset: keys{{"observation", text}}, gaveUp: "TimeoutError", opens: regexp.MustCompile(`(?s)^OBSERVATION:\n.*\nURL: .*\nOBJECTIVE: .*\nPREVIOUS ACTION: None`),
		step:    keys{{"observation", text}, {"reward", number}, {"terminated", boolean}, {"truncated", boolean}, {"info", maybe{object}}},
		textKey: "observation", doneKey: "terminated", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysLast,
		actions:  always("no command", "```scroll [down]```", "```scroll [up]```"),
		unjudged: "its goals are judged on web sites of its own, so rewards are only held against their range",
		over:     overGoesOn, unknown: errorServer, closing: closeObject, slow: true, quart: true,
		varies: "web pages change",
	},
	{
		name: "gaia", section: "5.12", createBody: `{"id":0,"dataset_type":"validation","tool_list":null}`,
		created: text, idKey: "env_idx",
		taskKey: "id", resetMore: `"dataset_type":"validation"`, tasks: []int{0, 1},
		reset: text, opening: bareText, opens: regexp.MustCompile(`(?s)^New task starts\.\n\nQuestion: .*Give me one action\.$`),
		step:    keys{{"observation", text}, {"reward", number}, {"done", boolean}, {"info", object}},
		textKey: "observation", doneKey: "done", rewards: [2]float64{-0.1, 1},
		observe:  text,
		actions:  always("nothing to parse", "Action: nope Action Input: x"),
		endings:  []ending{{tasks: []int{0}, action: repeat("Action: terminate Action Input: none", 1), must: atOnce, pays: pays(0.3, 0.5, 0.7, 0.8, 1)}},
		unjudged: "the answers to its questions are not known here, so the reward for a right one is taken on trust",
		over:     overGoesOn,
		unknown:  errorDetail, closing: closeNone,
	},
}

// wrongAnswer ends a task with an answer that no task has.
const wrongAnswer = `Action: finish with Action Input: {"answer": "no task has this answer"}`

// toolServer is one of the five servers of agentenv-tool, which differ in
// their tools alone.
func toolServer(name, harmless string) environment {
	return environment{
		name: name, section: "5.10", greeting: "ok", createBody: `{"id":0}`, created: natural, idKey: "env_idx",
		taskKey: "id", tasks: []int{0, 1}, beyond: 1000000,
		reset: text, opening: bareText,
		opens: regexp.MustCompile(`(?s)^Now new trial starts\.\sYou should perform actions to accomplish the goal: .*\nGive me one action\.$`),
		step:  toolReply, textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions: always(harmless, "Action: nope with Action Input: {}", "no action at all"),
		endings: slices.Concat([]ending{toolEnding(wrongAnswer, pays(0))}, solved(name)), over: overGoesOn,
		unknown: errorServer, closing: closeNone,
		extra: &extra{"tools", env.ListTools + " lists the tools of " + name, checkTools},
	}
}

// sheetServer pays the share of cells that are right, a finish or not.
func sheetServer() environment {
	e := toolServer("sheet", env.ListTools)
	e.endings = []ending{toolEnding("Action: finish with Action Input: {}", nil)}
	e.unjudged = "no way to edit a sheet of a live account as its goal says is recorded, so the reward is only held against its range"
	return e
}

// checkTools compares the tools that a server lists with those that the model
// is told of.
func checkTools(c *checker, n *notes) {
	s, ok := c.restart(n, 0)
	if !ok {
		return
	}
	p, ok := c.play(n, s, env.ListTools)
	if !ok {
		return
	}
	listed := env.ToolsIn(p.text)
	var lacks []string
	for _, name := range c.tools {
		if !slices.Contains(listed, name) {
			lacks = append(lacks, name)
		}
	}
	switch owner := env.ToolOwner(listed); {
	case len(listed) == 0:
		n.fail("%q names no tools", short(p.text, 80))
	case owner != "" && owner != c.env.name:
		n.fail("the tools are those of %s: %s", owner, short(strings.Join(listed, ", "), 80))
	case len(lacks) > 0:
		n.fail("the model is told of tools that the server lacks: %s", strings.Join(lacks, ", "))
	default:
		n.pass("%d tools", len(listed))
	}
}
