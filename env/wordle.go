package env

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// Wordle of AgentGym's lmrlgym server (protocol 5.6). Its endpoints are under
// /wordle, /create takes no body, the key of the task is "seed", and there is no /close.
// The word list is requested once, directly after /create, because the endpoint later
// returns only the words that are still possible. As in upstream's client, the word
// list is part of the first observation.

func init() {
	register("wordle", server{
		reset:   `{"seed":%d,"id":%s}`,
		parse:   split,
		prepare: wordleVocabulary,
	}, Spec{
		Doc:           "guess a five-letter word in six tries (AgentGym lmrlgym server)",
		PathSuffix:    "/wordle",
		Instruction:   wordleInstruction,
		SuccessReward: 0.99,
		MaxTurns:      8,
		Deterministic: true,
		Greeting:      lmrlgymGreeting,
	})
}

func wordleInstruction(format string) string {
	return "You are playing Wordle: find a hidden word of five letters with at most six guesses. " +
		"Every guess must be a word of the list you are given. " +
		"The answer to a guess is one letter for each position: g means the letter is right and in its place, " +
		"y means the word has the letter elsewhere, b means the word does not have it. " +
		"A guess outside the list is answered with \"invalid word\" and still costs a try. " +
		"Write the five letters of a guess with spaces between them.\n" +
		replyShape(format, "p l a n t")
}

// wordleVocabulary puts the word list before every first observation.
func wordleVocabulary(ctx context.Context, in *instance) error {
	path := "/filtered_vocab" + in.query()
	raw, err := in.get(ctx, OpObserve, path)
	if err != nil {
		return err
	}
	var words []string
	err = json.Unmarshal(raw, &words)
	if err == nil && len(words) == 0 {
		err = errors.New("the word list is empty")
	}
	if err != nil {
		return in.malformed(OpObserve, path, raw, err)
	}
	in.preface = "The words you may guess:\n" + strings.Join(words, "\n") + "\n\n"
	return nil
}
