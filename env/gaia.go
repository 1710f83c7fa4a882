package env

import "github.com/openmanus/openmanus/env/action"

// GAIA in the second revision of OpenManus-RL's server (protocol 5.12), which has no other client. A
// UUID names an instance. /create and /reset name the split of the data: always validation, the
// split with known answers. The server receives the model's whole reply and reads the line "Action:
// TOOL Action Input: INPUT" in it. There is no /close. The reward of a step is for that step alone.
// Only the tool terminate scores the answer: 1 if all words of the answer are right.

func init() {
	register("gaia", server{
		create:  `{"id":0,"dataset_type":"validation","tool_list":null}`,
		reset:   `{"id":%d,"dataset_type":"validation","env_idx":%s}`,
		indexed: true,
		textID:  true,
	}, Spec{
		Doc:           "answer a question with web, shell and Python tools (OpenManus-RL gaia server)",
		Instruction:   gaiaInstruction,
		ToolCall:      action.GaiaCall,
		ToolAnswer:    action.GaiaAnswer,
		SuccessReward: 0.99,
		MaxTurns:      10,
	})
}

func gaiaInstruction(format string) string {
	about := "You answer a question and may use tools on the way. The tools are: " +
		"web_search (input: what to look for), bash (input: a shell command), python_execute (input: code), " +
		"browser_use (input: what to do in a browser), and terminate (input: the answer alone), which ends the task. "
	if format == FormatToolCall {
		return about + "A tool's input is one text.\n" + action.ToolShape("web_search", `"population of Iceland in 2020"`)
	}
	return about + "An action names a tool and its input, on one line. " +
		"Write \"Action Input:\" straight after the tool's name.\n" +
		lineShape(format, "web_search Action Input: population of Iceland in 2020")
}
