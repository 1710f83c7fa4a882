package reward

import "strings"

// reply is what the model said: the response, or, where that holds the prompt
// too, what follows the first "Assistant:" or else the first
// "<|im_start|>assistant".
func (p *Params) reply(s *Sample) (string, bool) {
	if !p.WholeText {
		return s.Response, true
	}
	for _, mark := range []string{"Assistant:", "<|im_start|>assistant"} {
		if _, after, ok := strings.Cut(s.Response, mark); ok {
			return after, true
		}
	}
	return "", false
}

// answerOnLine is the last <answer> that begins and ends on one line.
func answerOnLine(text string) (string, bool) {
	answer, ok := "", false
	for line := range strings.SplitSeq(text, "\n") {
		if found := tagged(line, "answer"); len(found) > 0 {
			answer, ok = strings.TrimSpace(found[len(found)-1]), true
		}
	}
	return answer, ok
}

// lastLine is what follows the last line end of a text; those at its very end
// do not count.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\r\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}
