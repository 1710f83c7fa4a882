package env

// replyShape tells the model how to write its reply under a prompt format.
func replyShape(format, example string) string {
	if inTags(format) {
		return "Think first, then give exactly one action between tags, like this:\n<action>" + example + "</action>"
	}
	return "Think first, then give exactly one action, like this:\nThought:\nwhy you choose it\n\nAction:\n" + example
}

// lineShape is replyShape for servers that read the whole reply and want the
// action on the line of its mark, with nothing after it.
func lineShape(format, example string) string {
	if inTags(format) {
		return "Think first, in at most three sentences, then give exactly one action on one line between tags, like this:\n<action>" + example + "</action>"
	}
	return "Think first, in at most three sentences, then give exactly one action on one line and write nothing after it, like this:\n" +
		"Thought: why you choose it\n\nAction: " + example
}

// inTags reports whether a format has its action between <action> tags.
func inTags(format string) bool {
	return format == FormatActionTags || format == FormatHistory || format == FormatStaged
}

// Worded reports whether instructions are worded for a format. Under any other
// they show Thought and Action, and the format has to say what it wants instead.
func Worded(format string) bool {
	switch format {
	case FormatReact, FormatActionTags, FormatFunctionCalling, FormatCodeAsAction, FormatHistory, FormatStaged, FormatToolCall:
		return true
	}
	return false
}
