package builtin

import (
	"fmt"
	"strings"
)

// Vocabulary is the list of words of a wordle server: those that may be
// guessed and those that may be the answer are the same.
type Vocabulary struct {
	words []string
	known map[string]bool
}

// ownWords is the list of the original server.
const ownWords = `panic solar shire proxy point robot prick wince crimp knoll
sugar whack mount perky could wrung light those moist shard
pleat aloft skill elder frame humor pause ulcer ultra robin
cynic aroma caulk shake dodge swill tacit other thorn trove`

// OwnVocabulary gives the forty words of the original server.
func OwnVocabulary() *Vocabulary {
	v, err := ParseVocabulary(ownWords)
	if err != nil {
		panic(err) // a test reads them too
	}
	return v
}

// wordLength is the length of every word.
const wordLength = 5

// ParseVocabulary reads words parted by white space, in the order in which the
// server will list them. The original skips what has not five letters; here
// it is an error, as are letters other than a to z and a word given twice.
func ParseVocabulary(text string) (*Vocabulary, error) {
	v := &Vocabulary{known: map[string]bool{}}
	line := 0
	for l := range strings.Lines(text) {
		line++
		for word := range strings.FieldsSeq(l) {
			switch {
			case len(word) != wordLength || !lowerCase(word):
				return nil, fmt.Errorf("line %d: %q is no word of five letters a to z", line, word)
			case v.known[word]:
				return nil, fmt.Errorf("line %d: %q is there twice", line, word)
			}
			v.known[word] = true
			v.words = append(v.words, word)
		}
	}
	if len(v.words) == 0 {
		return nil, fmt.Errorf("the vocabulary is empty: give at least one word of five letters")
	}
	return v, nil
}

func lowerCase(s string) bool {
	for _, r := range s {
		if r < 'a' || r > 'z' {
			return false
		}
	}
	return true
}
