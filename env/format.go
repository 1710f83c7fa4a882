package env

import "github.com/openmanus/openmanus/env/action"

// These prompt formats have their own wording in instructions.
const (
	FormatReact           = "react"                        // Thought: … Action: …, the format of AgentGym
	FormatActionTags      = "action_tags"                  // <action>…</action>
	FormatFunctionCalling = string(action.FunctionCalling) // only if in Spec.ActionFormats
	FormatCodeAsAction    = string(action.CodeAsAction)    // only if in Spec.ActionFormats
	FormatHistory         = "history"                      // <action>…</action>; every turn has a new prompt
	FormatStaged          = "staged"                       // FormatHistory with a memory
	FormatToolCall        = "tool_call"                    // <tool_call>{…}</tool_call>, only if Spec.ToolCall is set
)

// replyShape returns the part of an instruction that describes the shape of a
// reply under a prompt format.
func replyShape(format, example string) string {
	if inTags(format) {
		return "Think first, then give exactly one action between tags, like this:\n<action>" + example + "</action>"
	}
	return "Think first, then give exactly one action, like this:\nThought:\nwhy you choose it\n\nAction:\n" + example
}

// lineShape is replyShape for servers that read the whole reply. They require the
// action on the line of "Action:" and no text after it.
func lineShape(format, example string) string {
	if inTags(format) {
		return "Think first, in at most three sentences, then give exactly one action on one line between tags, like this:\n<action>" + example + "</action>"
	}
	return "Think first, in at most three sentences, then give exactly one action on one line and write nothing after it, like this:\n" +
		"Thought: why you choose it\n\nAction: " + example
}

// inTags reports whether the action is between <action> tags under a format.
func inTags(format string) bool {
	return format == FormatActionTags || format == FormatHistory || format == FormatStaged
}

// Worded reports whether instructions have a wording for a format. Under any other
// format they show Thought and Action, and the format must describe the shape of a
// reply to the model.
func Worded(format string) bool {
	switch format {
	case FormatReact, FormatActionTags, FormatFunctionCalling, FormatCodeAsAction, FormatHistory, FormatStaged, FormatToolCall:
		return true
	}
	return false
}
