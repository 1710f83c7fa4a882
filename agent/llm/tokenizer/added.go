package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is an entry of added_tokens in tokenizer.json: a token that is
// matched before the text is split.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // match only between non-word runes
	LStrip     bool   `json:"lstrip"`      // include the white space before the token
	RStrip     bool   `json:"rstrip"`      // include the white space after the token
	Normalized bool   `json:"normalized"`  // match in normalized text
	Special    bool   `json:"special"`     // Decode with skipSpecial omits the token
}

// matcher finds the leftmost added token, and the longest token at that position.
type matcher struct {
	tokens []AddedToken
	nodes  []trieNode
	first  [256]bool
}

type trieNode struct {
	next  map[byte]int32
	token int32 // index into tokens; -1 if no token ends here
}

func newMatcher(tokens []AddedToken, content func(AddedToken) string) *matcher {
	m := &matcher{tokens: tokens, nodes: []trieNode{{token: -1}}}
	for i, t := range tokens {
		s := content(t)
		at := int32(0)
		for j := range len(s) {
			child, ok := m.nodes[at].next[s[j]]
			if !ok {
				child = int32(len(m.nodes))
				m.nodes = append(m.nodes, trieNode{token: -1})
				if m.nodes[at].next == nil {
					m.nodes[at].next = make(map[byte]int32)
				}
				m.nodes[at].next[s[j]] = child
			}
			at = child
		}
		if at != 0 && m.nodes[at].token < 0 {
			m.nodes[at].token = int32(i)
			m.first[s[0]] = true
		}
	}
	return m
}

// find returns the first match at or after from; token is nil if there is no match.
func (m *matcher) find(text string, from int) (token *AddedToken, start, end int) {
	for i := from; i < len(text); i++ {
		if !m.first[text[i]] {
			continue
		}
		best, bestEnd := int32(-1), 0
		at := int32(0)
		for j := i; j < len(text); j++ {
			child, ok := m.nodes[at].next[text[j]]
			if !ok {
				break
			}
			at = child
			if t := m.nodes[at].token; t >= 0 {
				best, bestEnd = t, j+1
			}
		}
		if best >= 0 {
			return &m.tokens[best], i, bestEnd
		}
	}
	return nil, 0, 0
}

// split calls the function plain for the text between added tokens, and the function
// token for each added token, in order. With splitSpecial, special tokens are part of the text.
func (m *matcher) split(text string, splitSpecial bool, plain func(string), token func(int32)) {
	done := 0 // text[:done] is already passed to plain and token
	for from := 0; ; {
		t, start, end := m.find(text, from)
		if t == nil {
			break
		}
		from = end
		if splitSpecial && t.Special {
			continue
		}
		if t.SingleWord && (endsInWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		if t.LStrip {
			start = max(len(strings.TrimRightFunc(text[:start], unicode.IsSpace)), done)
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			plain(text[done:start])
		}
		token(t.ID)
		done = end
	}
	if done < len(text) {
		plain(text[done:])
	}
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord reports whether r is in \w as defined by UTS 18, annex C.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}
