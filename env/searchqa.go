package env

import "context"

// SearchQA (protocol 5.11). /create wants a body and answers a bare number,
// the task is called "id", the question is asked for after /reset, and the
// whole text is sent: the server looks for its own tags. A wrong answer does
// not end the task.

var searchqaServer = server{}

// searchqaQuestions is the number of questions: AgentGym's documentation
// counts one more, which its code refuses.
const searchqaQuestions = 221328

// searchqaFamilies are the data sets: those of the test questions, then those
// of the training questions.
var searchqaFamilies = families{
	{0, "nq"}, {3610, "triviaqa"}, {14923, "popqa"}, {29190, "hotpotqa"}, {36595, "2wikimultihopqa"}, {49171, "musique"},
	{51588, "bamboogle"}, {51713, "nq"}, {130881, "hotpotqa"},
}

func init() {
	Register("searchqa", Spec{
		Doc:           "answer a question with the help of a search engine (AgentGym searchqa server)",
		New:           newSearchQA,
		Instruction:   searchqaInstruction,
		SuccessReward: 0.99,
		OwnTags:       []string{"search", "answer"},
		MaxTurns:      30,
		IndexValid:    below(searchqaQuestions, "questions"),
		Family:        searchqaFamilies.at,
		Greeting:      "ok",
	})
}

func searchqaInstruction(format string) string {
	return "You are asked a question and can search an encyclopedia before you answer it. " +
		"There are two actions: <search>WORDS</search> looks for texts, three of which come back as information, " +
		"and <answer>ANSWER</answer> answers: give the name, number or date alone, without a sentence around it. " +
		"Do not write information yourself. A wrong answer is not the end: search again and give another.\n" +
		replyShape(format, "<search>capital of France</search>")
}

type searchqa struct{ indexed }

func newSearchQA(ctx context.Context, o Options) (Client, error) {
	if _, err := o.parser("searchqa"); err != nil { // both generations send the text
		return nil, err
	}
	c, err := newCaller(o, searchqaServer)
	if err != nil {
		return nil, err
	}
	s := &searchqa{indexed{instance: instance{caller: c}}}
	if err := s.createBare(ctx, toolCreate{}); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *searchqa) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("searchqa", index); err != nil {
		return Obs{}, err
	}
	return s.restart(ctx, toolReset{ID: index, EnvIdx: s.idx}, s.resetText)
}

func (s *searchqa) Step(ctx context.Context, text string) (StepResult, error) {
	return s.actIndexed(ctx, text)
}

// Close gives the instance back.
func (s *searchqa) Close(ctx context.Context) error { return s.giveBack(ctx) }
