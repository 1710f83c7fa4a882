package env

// SearchQA (protocol 5.11). /create requires a body and returns a number. The key of the
// task in a reset is "id", and the question is requested after /reset. The server receives
// the model's whole reply and looks for tags in it. A wrong answer does not end the task.

// searchqaQuestions is the number of questions. AgentGym's documentation counts one
// more, which its code rejects.
const searchqaQuestions = 221328

// searchqaFamilies lists the data sets of the test questions, then those of the
// training questions.
var searchqaFamilies = families{
	{0, "nq"}, {3610, "triviaqa"}, {14923, "popqa"}, {29190, "hotpotqa"}, {36595, "2wikimultihopqa"}, {49171, "musique"},
	{51588, "bamboogle"}, {51713, "nq"}, {130881, "hotpotqa"},
}

func init() {
	register("searchqa", server{
		create:  `{"id":0}`,
		reset:   `{"id":%d,"env_idx":%s}`,
		indexed: true,
		closes:  true,
	}, Spec{
		Doc:           "answer a question with the help of a search engine (AgentGym searchqa server)",
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
