package check

import (
	"regexp"
	"slices"
	"strings"
)

// This file describes the games: textcraft, babyai, sciworld, alfworld, and lmrlgym's
// maze and wordle. Their ids are integers in an object, and their errors are objects
// with status 200.

var games = []environment{
	{
		name: "textcraft", section: "5.1",
		createBody: `{"minecraft_dir":"agentenv_textcraft/","commands":null,"goal":null}`,
		created:    keys{{"id", natural}, {"observation", text}, {"done", boolean}, {"reward", number}}, idFrom: "id", idKey: "id",
		taskKey: "data_idx", tasks: []int{0, 1},
		reset:   keys{{"id", integer}, {"observation", text}, {"done", boolean}, {"reward", number}},
		opening: observationOf, opens: regexp.MustCompile(`(?s)^Crafting commands:\n.*\n\nGoal: craft .*\.$`),
		step: textReply, textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observed: observedLast,
		actions: craftActions, endings: []ending{craftEnding}, stepsAfterEnd: true,
		unknown: errorObject, closing: closeBool,
	},
	{
		name: "babyai", section: "5.2",
		created: keys{{"id", natural}}, idFrom: "id", idKey: "id",
		taskKey: "data_idx", tasks: []int{2, 42},
		reset:   keys{{"observation", text}, {"reward", number}, {"score", number}, {"deleted", boolean}, {"done", boolean}},
		opening: observationOf, opens: regexp.MustCompile(`(?s)^Your goal: .*\nAvailable actions: \[`),
		step: scoreReply, textKey: "observation", doneKey: "done", rewards: [2]float64{-1, 1},
		observe: keys{{"observation", text}, {"reward", number}, {"score", number}, {"done", boolean}, {"deleted", boolean}},
		actions: always("turn left", "move forward", "turn right", "check available actions"),
		endings: solved("babyai"),
		unknown: errorObject, closing: closeBool,
	},
	{
		name: "sciworld", section: "5.3",
		created: keys{{"id", natural}}, idFrom: "id", idKey: "id",
		taskKey: "data_idx", tasks: []int{0, 30}, beyond: 1000000,
		reset: keys{
			{"task_name", text}, {"var_num", integer}, {"task_description", text}, {"observation", text},
			{"reward", number}, {"score", number}, {"deleted", boolean}, {"done", boolean},
		},
		opening: func(reset any) string { return field(reset, "task_description") + "\n" + field(reset, "observation") },
		opens:   regexp.MustCompile(`^Your task is `),
		step:    scoreReply, textKey: "observation", doneKey: "done", rewards: [2]float64{-100, 100},
		observe: text, observed: observedLast,
		actions: always("look around", "inventory", "open door to hallway"),
		// The tenth wait exceeds the server's limit of 100 moves.
		endings:    []ending{{tasks: []int{0}, action: repeat("wait", 12), mustEnd: atStep(12)}},
		noSolution: "no solution of a ScienceWorld task is recorded, so its rewards are not checked",
		unknown:    errorObject, closing: closeOnce, slow: true,
		varies: "ScienceWorld lists the objects of a room in varying order",
	},
	{
		name: "alfworld", section: "5.4",
		created: keys{{"id", natural}}, idFrom: "id", idKey: "id",
		taskKey: "game", resetMore: `"world_type":"Text"`, tasks: []int{0, 1}, beyond: 1000000,
		reset:   keys{{"id", integer}, {"observation", text}, {"available_actions", every{text}}, {"task_type", text}},
		opening: observationOf, opens: regexp.MustCompile(`(?s)^You are in the middle of a room\..*\nYour task is to: `),
		step:    keys{{"observation", text}, {"reward", number}, {"available_actions", every{text}}, {"done", boolean}},
		textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observed: observedLast,
		actions: func(_ *checker, reset any) []string {
			chosen := []string{"inventory"}
			o, _ := reset.(map[string]any)
			for _, action := range stringsIn(o["available_actions"]) {
				if strings.HasPrefix(action, "go to ") && len(chosen) < 3 {
					chosen = append(chosen, action)
				}
			}
			return append(chosen, "look")
		},
		noSolution: "no solution of an ALFWorld game is recorded, so the reward for winning is not checked",
		unknown:    errorObject, closing: closeNone,
	},
	{
		name: "maze", section: "5.5",
		created: keys{{"id", natural}}, idFrom: "id", idKey: "id",
		taskKey: "game", tasks: []int{18, 0}, beyond: 26,
		reset:   keys{{"observation", text}},
		opening: observationOf,
		opens:   regexp.MustCompile(`^The goal is at position 8, 6\. Your current position is at position \d+, \d+\. There (is|are) `),
		step:    textReply, textKey: "observation", doneKey: "done", rewards: [2]float64{-1, 1},
		observe: text, observed: observedLast,
		// These actions do not end an episode of game 18, which starts one step above the goal, or
		// of game 0, which starts in a corner.
		actions: always("move up", "move right", "fly", "move left", "move up"),
		endings: []ending{
			{
				tasks: []int{18}, only: true, wins: true, action: repeat("move down", 1), mustEnd: atStep(1), exact: true, checkReward: rewardIn(1),
				start: "The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left.",
			},
			{action: repeat("fly", 51), mustEnd: atStep(51), exact: true, checkReward: rewardIn(-1)}, // the last step exceeds the step limit
		},
		unknown: errorObject, closing: closeNone,
		extra: check{name: "actions", expected: `GET /maze/available_actions answers ["move left","move right","move up","move down"]`, run: func(c *checker, n *notes) {
			v, ok := c.require(n, "observe", c.get("/available_actions", ""), every{text})
			switch {
			case !ok:
			case strings.Join(stringsIn(v), ",") != "move left,move right,move up,move down":
				n.fail("%s", describe(v))
			default:
				n.pass("%s", describe(v))
			}
		}},
	},
	{
		name: "wordle", section: "5.6",
		created: keys{{"id", natural}}, idFrom: "id", idKey: "id",
		taskKey: "seed", tasks: []int{3, 4},
		reset:   keys{{"id", integer}, {"observation", text}},
		opening: observationOf, opens: regexp.MustCompile(`^Let's start Wordle!$`),
		step: textReply, textKey: "observation", doneKey: "done", rewards: [2]float64{0, 1},
		observe: text, observed: observedLast,
		actions: func(c *checker, _ any) []string {
			words := c.words // the words that the server listed
			if len(words) == 0 {
				words = []string{"panic", "solar", "shire"} // words of AgentGym's server
			}
			return []string{"zzzzz", spaced(words[0]), words[len(words)/2], words[len(words)-1]}
		},
		endings: wordleEndings,
		unknown: errorObject, closing: closeNone,
		extra: check{
			name:     "word list",
			expected: "GET /wordle/filtered_vocab returns an array of five-letter words, after a guess only those that remain possible",
			run:      checkVocabulary,
		},
	},
}

// stringsIn returns the strings of a decoded array.
func stringsIn(v any) []string {
	items, _ := v.([]any)
	var all []string
	for _, item := range items {
		s, _ := item.(string)
		all = append(all, s)
	}
	return all
}

func spaced(word string) string { return strings.Join(strings.Split(word, ""), " ") }

// requestVocabulary requests the words that are still possible in a session.
func (c *checker) requestVocabulary(n *notes, s session) ([]string, bool) {
	v, ok := c.require(n, "observe", c.get("/filtered_vocab", c.query(s)), every{text})
	if !ok {
		return nil, false
	}
	words := stringsIn(v)
	if len(words) == 0 {
		n.fail("the word list is empty")
	}
	for _, w := range words {
		if len(w) != 5 {
			n.fail("%q is not a word of five letters", w)
			return nil, false
		}
	}
	return words, len(words) > 0
}

func checkVocabulary(c *checker, n *notes) {
	s, ok := c.restart(n)
	if !ok {
		return
	}
	all, ok := c.requestVocabulary(n, s)
	if !ok {
		return
	}
	p, ok := c.play(n, s, spaced(all[0]))
	if !ok || p.done {
		return
	}
	left, ok := c.requestVocabulary(n, s)
	if !ok {
		return
	}
	if len(left) >= len(all) && len(all) > 1 {
		n.fail("after %q with reply %q all %d words are still possible", all[0], p.text, len(all))
		return
	}
	for _, w := range left {
		if !slices.Contains(all, w) {
			n.fail("%q was not in the previous list", w)
		}
	}
	n.pass("%d words, %d after a guess with reply %q", len(all), len(left), p.text)
}
