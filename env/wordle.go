package env

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// Wordle of AgentGym's lmrlgym server (protocol 5.6). Its endpoints are under
// /wordle, /create takes no body, the task is called "seed", and there is no
// /close. The word list is requested once, directly after /create, because the
// endpoint later returns only the words that are still possible. It is part of
// the first observation, as in upstream's client.

var wordleServer = server{suffix: "/wordle"}

func init() {
	Register("wordle", Spec{
		Doc:           "guess a five-letter word in six tries (AgentGym lmrlgym server)",
		PathSuffix:    wordleServer.suffix,
		New:           newWordle,
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

type wordle struct {
	*instance
	vocabulary []string
}

type wordleReset struct {
	Seed int   `json:"seed"`
	ID   int64 `json:"id"`
}

func newWordle(ctx context.Context, o Options) (Client, error) {
	in, err := newInstance(ctx, "wordle", o, wordleServer, nil)
	if err != nil {
		return nil, err
	}
	w := &wordle{instance: in}
	path := "/filtered_vocab?id=" + strconv.FormatInt(w.id, 10)
	raw, err := w.get(ctx, OpObserve, path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &w.vocabulary); err != nil || len(w.vocabulary) == 0 {
		if err == nil {
			err = fmt.Errorf("the word list is empty")
		}
		return nil, w.malformed(OpObserve, path, raw, err)
	}
	return w, nil
}

func (w *wordle) Reset(ctx context.Context, index int) (Obs, error) {
	obs, err := w.reset(ctx, index, wordleReset{Seed: index, ID: w.id})
	if err != nil {
		return Obs{}, err
	}
	obs.Text = "The words you may guess:\n" + strings.Join(w.vocabulary, "\n") + "\n\n" + obs.Text
	return obs, nil
}

func (w *wordle) Step(ctx context.Context, text string) (StepResult, error) {
	return w.act(ctx, action.ParseSplit(text))
}
