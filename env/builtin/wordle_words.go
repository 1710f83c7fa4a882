package builtin

import (
	"fmt"
	"strings"
)

// Vocabulary is the list of words of a wordle server, both for guesses and for
// secrets.
type Vocabulary struct {
	words []string
	known map[string]bool
}

// ownWords is the vocabulary of AgentGym's server.
const ownWords = `panic solar shire proxy point robot prick wince crimp knoll
sugar whack mount perky could wrung light those moist shard
pleat aloft skill elder frame humor pause ulcer ultra robin
cynic aroma caulk shake dodge swill tacit other thorn trove`

// OwnVocabulary returns the forty words of AgentGym's server.
func OwnVocabulary() *Vocabulary {
	v, err := ParseVocabulary(ownWords)
	if err != nil {
		panic(err)
	}
	return v
}

const (
	wordLength = 5 // number of letters of every word
	letters    = "abcdefghijklmnopqrstuvwxyz"
)

// ParseVocabulary parses words separated by white space and keeps their order. A
// duplicate, or a word that is not five letters a to z, is an error; AgentGym
// skips words of another length.
func ParseVocabulary(text string) (*Vocabulary, error) {
	v := &Vocabulary{known: map[string]bool{}}
	line := 0
	for l := range strings.Lines(text) {
		line++
		for word := range strings.FieldsSeq(l) {
			switch {
			case len(word) != wordLength || strings.Trim(word, letters) != "":
				return nil, fmt.Errorf("line %d: %q is not a word of five letters a to z", line, word)
			case v.known[word]:
				return nil, fmt.Errorf("line %d: duplicate word %q", line, word)
			}
			v.known[word] = true
			v.words = append(v.words, word)
		}
	}
	if len(v.words) == 0 {
		return nil, fmt.Errorf("the vocabulary is empty: add at least one word of five letters")
	}
	return v, nil
}
