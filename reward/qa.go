package reward

import (
	"slices"
	"strings"
	"unicode"

	"github.com/openmanus/openmanus/data/registry"
)

// qa_em:  1 if the answer equals one of the targets after normalisation
// qa_subem: 1 if a normalised target is part of the normalised answer
// else format_score; 0 without an answer.
//
// Source: OpenManus-RL verl/utils/reward_score/qa_em.py (spec 6.3), after the
// evaluation script of SQuAD.
//
// Differs in: only replies are scored, without the prompt, so one <answer> is
// enough (min_answer_tags); upstream requires two, of which the first is the
// example in the prompt.
func init() {
	qa := func(match func(answer, target string) bool) Function {
		return answerFunction(1, func(v registry.Values, answer string, targets []string) Score {
			answer = normalizeAnswer(answer)
			return oneIf(v, slices.ContainsFunc(targets, func(target string) bool { return match(answer, normalizeAnswer(target)) }))
		})
	}
	params := []registry.Param{formatScore.Param, minAnswerTags.Param}
	Functions.Add(registry.Entry{Name: "qa_em", Doc: "1 if the normalized answer equals a target", Params: params},
		qa(func(answer, target string) bool { return answer == target }))
	Functions.Add(registry.Entry{Name: "subem", Doc: "1 if the normalized answer contains a target", Params: params}, qa(strings.Contains))
}

// answerFunction scores the answer in a reply. A reply without an answer scores 0.
// The parameter least is the number of <answer> tags that a reply needs unless min_answer_tags
// is set.
func answerFunction(least int, score func(v registry.Values, answer string, targets []string) Score) Function {
	return Function{NeedsTruth: true, Score: func(v registry.Values, s *Sample) (Score, error) {
		need := least
		if n := minAnswerTags.In(v); n >= 0 {
			need = n
		}
		answer, ok := answerIn(s.Response, need)
		if !ok {
			return Score{}, nil
		}
		return score(v, answer, Targets(s.GroundTruth)), nil
	}}
}

// oneIf returns 1 for a correct answer and format_score for a wrong one.
func oneIf(v registry.Values, correct bool) Score {
	if correct {
		return Score{Value: 1}
	}
	return Score{Value: formatScore.In(v)}
}

// answerIn returns the stripped text in the last <answer> if text has at least
// minTags of these tags. If minTags is 0, a text without <answer> is the answer.
func answerIn(text string, minTags int) (string, bool) {
	found := tagged(text, "answer")
	switch {
	case len(found) == 0 && minTags == 0:
		return strings.TrimSpace(text), true
	case len(found) == 0 || len(found) < minTags:
		return "", false
	}
	return strings.TrimSpace(found[len(found)-1]), true
}

// tagged returns the texts between each <tag> and the next </tag>, in order.
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

// articles are the words that normalizeAnswer removes. "by" is upstream's addition.
var articles = map[string]bool{"a": true, "an": true, "the": true, "by": true}

// normalizeAnswer applies normalizeText and then removes articles. Punctuation is
// removed first: "don't" becomes "dont". Words end as at Python's \b, so that
// articles in typographic quotes are removed too.
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
