package reward

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// The score function of a row's data_source, as chosen by verl's
// default_compute_score and OpenManus-RL's reward manager (spec 6.2). A source
// without a function is an error, as in both programs.
//
// Differs in: AgentGym's environments are scored by their own reward.
// OpenManus-RL's agentgym function would start from that reward too, but is called
// with other arguments than it declares.
func init() {
	Functions.Add(registry.Entry{
		Name: "data_source", Doc: "the function that belongs to the row's data_source",
		Params: []registry.Param{formatScore.Param, minAnswerTags.Param, gsm8kMethod.Param},
	}, Function{Score: func(v registry.Values, s *Sample) (Score, error) {
		name, ok := SourceFunction(s.Source)
		switch {
		case !ok && s.Turns == nil:
			return Score{}, fmt.Errorf("%w %q", ErrNoFunction, s.Source)
		case !ok:
			name = "goal"
		}
		f, err := Functions.Lookup(name)
		if err != nil {
			return Score{}, err
		}
		return f.apply(v, s)
	}})
}

// ErrNoFunction is returned by the score function data_source if a sample's source
// has no function. The error message ends with the source.
var ErrNoFunction = errors.New("no function for data_source")

var (
	qaSources   = []string{"nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"}
	mathSources = []string{"lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500"}
)

// SourceFunction returns the function that compares single replies to rows of a
// data_source with their ground truth, if one exists.
func SourceFunction(source string) (name string, ok bool) {
	switch {
	case slices.Contains(qaSources, strings.TrimPrefix(source, "searchR1_")):
		return "qa_em", true
	case source == "openai/gsm8k":
		return "gsm8k", true
	case slices.Contains(mathSources, source):
		return "math", true
	}
	return "", false
}
