package reward

import (
	"strings"
	"unicode"

	"github.com/openmanus/openmanus/data/registry"
)

// qa_em:  1 if the answer equals one of the targets after normalisation
// qa_subem: 1 if a normalised target is part of the normalised answer
// else format_score; 0 where there is no answer.
//
// Source: OpenManus-RL verl/utils/reward_score/qa_em.py (spec 6.3), after the
// evaluation script of SQuAD.
//
// Differs in: only replies are scored, not the prompt with them, so one
// <answer> is enough (min_answer_tags; upstream wants two, the first being the
// prompt's example); nothing is printed.
func init() {
	qa := func(match func(answer, target string) bool) Function {
		return Function{NeedsTruth: true, New: func(v registry.Values) (func(*Sample) (Score, error), error) {
			return func(s *Sample) (Score, error) {
				answer, ok := answerIn(s.Response, answerTags(v, 1))
				if !ok {
					return Score{}, nil
				}
				answer = normalizeAnswer(answer)
				for _, target := range Targets(s.GroundTruth) {
					if match(answer, normalizeAnswer(target)) {
						return Score{Value: 1}, nil
					}
				}
				return Score{Value: formatScore.In(v)}, nil
			}, nil
		}}
	}
	params := []registry.Param{formatScore.Param, minAnswerTags.Param}
	Functions.Add(registry.Entry{Name: "qa_em", Doc: "1 if the normalized answer equals a target", Params: params},
		qa(func(answer, target string) bool { return answer == target }))
	Functions.Add(registry.Entry{Name: "subem", Doc: "1 if the normalized answer contains a target", Params: params}, qa(strings.Contains))
}

// answerTags returns how many <answer> tags a reply needs: min_answer_tags, or
// the function's own number.
func answerTags(v registry.Values, own int) int {
	if n := minAnswerTags.In(v); n >= 0 {
		return n
	}
	return own
}

// answerIn is the text in the last <answer> of at least least of them,
// stripped; with least 0, a text without one is the answer as a whole.
func answerIn(text string, least int) (string, bool) {
	found := tagged(text, "answer")
	switch {
	case len(found) == 0 && least == 0:
		return strings.TrimSpace(text), true
	case len(found) == 0 || len(found) < least:
		return "", false
	}
	return strings.TrimSpace(found[len(found)-1]), true
}

// tagged are the texts between <tag> and the next </tag>, one after the other.
func tagged(text, tag string) []string {
	var out []string
	open, end := "<"+tag+">", "</"+tag+">"
	for {
		_, rest, ok := strings.Cut(text, open)
		if !ok {
			return out
		}
		inner, after, ok := strings.Cut(rest, end)
		if !ok {
			return out
		}
		out = append(out, inner)
		text = after
	}
}

// asciiPunctuation is Python's string.punctuation.
const asciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// normalizeText lower-cases, deletes punctuation and collapses whitespace.
func normalizeText(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(asciiPunctuation, r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
	return strings.Join(strings.Fields(s), " ")
}

// articles are what normalizeAnswer leaves out. "by" is upstream's addition.
var articles = map[string]bool{"a": true, "an": true, "the": true, "by": true}

// normalizeAnswer is normalizeText without articles. Punctuation goes first:
// "don't" becomes "dont". A word ends where Python's \b is, so that articles in
// typographic quotes are articles too.
func normalizeAnswer(s string) string {
	s = normalizeText(s)
	inWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
	var b strings.Builder
	for len(s) > 0 {
		n := strings.IndexFunc(s, func(r rune) bool { return !inWord(r) })
		if n < 0 {
			n = len(s)
		}
		if word := s[:n]; articles[word] {
			b.WriteByte(' ')
		} else {
			b.WriteString(word)
		}
		s = s[n:]
		if n = strings.IndexFunc(s, inWord); n < 0 {
			n = len(s)
		}
		b.WriteString(s[:n])
		s = s[n:]
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
