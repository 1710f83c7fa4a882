package check

import (
	"regexp"
	"strings"
)

// The others: webshop and sqlgym with their bare ids and pairs, the five tool
// servers and searchqa with their bare texts, webarena, and gaia (rev B). All
// but the last answer what they cannot do with status 500.

var tools = []environment{
	{
		name: "webshop", section: "5.7", greeting: "ok", created: integer, idKey: "env_idx",
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
		over: overGoesOn, unknown: errorServer, closing: closeNone, slow: true, retry503: true,
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
		name: "sqlgym", section: "5.9", greeting: "ok", created: integer, idKey: "env_idx",
		taskKey: "item_id", tasks: []int{9428, 9429}, beyond: 1000000,
		reset: pairReply, opening: firstOf, opens: regexp.MustCompile(`(?s)^.* contains tables such as .*\n\n.+`),
		step:    keys{{"state", text}, {"reward", number}, {"done", boolean}, {"info", keys{{"ground_truth", text}}}},
		textKey: "state", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions: always("SELECT 1", "SELECT 2, 'two'"),
		endings: sqlEndings, over: overGoesOn,
		unknown: errorServer, closing: closeNone, limit: 8, retry503: true,
	},
	toolServer("weather", "Action: get_user_current_date with Action Input: {}", finishAnswer, pays(0, 1)),
	toolServer("movie", checkValid, finishAnswer, nil),
	toolServer("academia", checkValid, finishAnswer, nil),
	toolServer("todo", checkValid, finishAnswer, pays(0, 1)),
	toolServer("sheet", checkValid, "Action: finish with Action Input: {}", nil),
	{
		name: "searchqa", section: "5.11", greeting: "ok", createBody: `{"id":0}`, created: integer, idKey: "env_idx",
		taskKey: "id", tasks: []int{0, 1}, beyond: 1000000,
		reset: text, opening: bareText, opens: regexp.MustCompile(`(?s)Question: .+`),
		step:    keys{{"observation", text}, {"reward", number}, {"done", boolean}, {"info", whole}},
		textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions: always("nothing", "<answer>no such answer as this</answer>"),
		over:    overGoesOn, unknown: errorServer, closing: closeBool,
	},
	{
		name: "webarena", section: "5.8", greeting: "ok", created: keys{{"env_idx", integer}}, idFrom: "env_idx", idKey: "env_idx",
		taskKey: "idx", resetMore: `"seed":0`, tasks: []int{0, 1},
		reset: keys{{"observation", text}}, gaveUp: "TimeoutError", opens: regexp.MustCompile(`(?s)^OBSERVATION:\n.*\nURL: .*\nOBJECTIVE: .*\nPREVIOUS ACTION: None`),
		step:    keys{{"observation", text}, {"reward", number}, {"terminated", boolean}, {"truncated", boolean}, {"info", maybe{object}}},
		textKey: "observation", doneKey: "terminated", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysLast,
		actions: always("no command", "```scroll [down]```", "```scroll [up]```"),
		over:    overGoesOn, unknown: errorServer, closing: closeObject, slow: true, quart: true,
		varies: "web pages change",
	},
	{
		name: "gaia", section: "5.12", createBody: `{"id":0,"dataset_type":"validation","tool_list":null}`,
		created: text, idKey: "env_idx",
		taskKey: "id", resetMore: `"dataset_type":"validation"`, tasks: []int{0, 1},
		reset: text, opening: bareText, opens: regexp.MustCompile(`(?s)^New task starts\.\n\nQuestion: .*Give me one action\.$`),
		step:    keys{{"observation", text}, {"reward", number}, {"done", boolean}, {"info", object}},
		textKey: "observation", doneKey: "done", rewards: [2]float64{-0.1, 1},
		observe: text,
		actions: always("nothing to parse", "Action: nope Action Input: x"),
		endings: []ending{{tasks: []int{0}, action: repeat("Action: terminate Action Input: none", 1), must: atOnce, pays: pays(0.3, 0.5, 0.7, 0.8, 1)}},
		over:    overGoesOn,
		unknown: errorDetail, closing: closeNone,
	},
}

const (
	checkValid   = "Action: check_valid_actions with Action Input: {}"
	finishAnswer = `Action: finish with Action Input: {"answer": 1}`
)

// toolServer is one of the five servers of agentenv-tool, which differ in
// their tools alone.
func toolServer(name, harmless, finish string, pays func(played) string) environment {
	return environment{
		name: name, section: "5.10", greeting: "ok", createBody: `{"id":0}`, created: integer, idKey: "env_idx",
		taskKey: "id", tasks: []int{0, 1}, beyond: 1000000,
		reset: text, opening: bareText,
		opens: regexp.MustCompile(`(?s)^Now new trial starts\.\nYou should perform actions to accomplish the goal: .*\nGive me one action\.$`),
		step:  toolReply, textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observeSays: saysOpening,
		actions: always(harmless, "Action: nope with Action Input: {}", "no action at all"),
		endings: []ending{toolEnding(finish, pays)}, over: overGoesOn,
		unknown: errorServer, closing: closeNone,
	}
}
