package agent

import "unicode/utf8"

// cutMark stands where text was taken out of an observation.
const cutMark = "\n[… observation shortened …]\n"

// capObservation shortens text to at most limit tokens by taking out its
// middle: what an environment says first names what happened, and what it says
// last is often the state or the list of what can be done now. count gives the
// tokens a text takes. A limit of 0 means none.
func capObservation(text string, limit int, count func(string) (int, error)) (string, bool, error) {
	if limit <= 0 {
		return text, false, nil
	}
	return truncate(text, limit, TruncateMiddle, count)
}

// truncate shortens text to at most limit tokens by taking text out on a side:
// TruncateLeft, TruncateMiddle or TruncateRight. It returns whether it did.
func truncate(text string, limit int, side string, count func(string) (int, error)) (string, bool, error) {
	n, err := count(text)
	if err != nil || n <= limit {
		return text, false, err
	}
	runes := []rune(text)
	keep := len(runes)
	for {
		// Tokens are about evenly spread over the characters; where they are
		// not, go on from what the last try cost.
		keep = min(keep*limit/n, keep-1-keep/20)
		if keep <= len(cutMark) {
			break
		}
		head := keep - keep/2
		switch side {
		case TruncateLeft:
			head = 0
		case TruncateRight:
			head = keep
		}
		short := string(runes[:head]) + cutMark + string(runes[len(runes)-(keep-head):])
		if n, err = count(short); err != nil {
			return text, false, err
		}
		if n <= limit {
			return short, true, nil
		}
	}
	// The mark would take most of it: the start or the end of the text alone.
	for keep = min(len(runes), limit*utf8.UTFMax); keep > 0; keep /= 2 {
		short := string(runes[:keep])
		if side == TruncateLeft {
			short = string(runes[len(runes)-keep:])
		}
		if n, err = count(short); err != nil || n <= limit {
			return short, true, err
		}
	}
	return "", true, nil
}
