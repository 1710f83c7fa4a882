package reward

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// The function of a row's data_source, as verl's default_compute_score and
// OpenManus-RL's reward manager choose it (spec 6.2).
//
// Differs in: a source that has no function is an error that says so, as
// there, and the environments of AgentGym are paid by their own reward, which
// is what OpenManus-RL's agentgym function would have begun with, had it been
// called with the arguments it has.
func init() {
	Functions.Add(registry.Entry{
		Name: "data_source", Doc: "the function that belongs to the row's data_source",
		Params: []registry.Param{formatScore.Param, minAnswerTags.Param, gsm8kMethod.Param},
	}, Function{New: func(v registry.Values) (func(*Sample) (Score, error), error) {
		made := map[string]Scorer{}
		for _, name := range []string{"qa_em", "gsm8k", "math", "goal"} {
			var err error
			if made[name], err = Open(name, v); err != nil {
				return nil, err
			}
		}
		return func(s *Sample) (Score, error) {
			name, ok := functionOf(s)
			if !ok {
				return Score{}, fmt.Errorf("%w %q", ErrNoFunction, s.Source)
			}
			l := made[name].(*local)
			if l.needsTruth && s.GroundTruth == "" {
				return Score{}, ErrNoGroundTruth
			}
			return l.score(s)
		}, nil
	}})
}

// ErrNoFunction is returned by data_source for a sample whose source, which
// follows, has no function.
var ErrNoFunction = errors.New("there is no function for data_source")

var (
	qaSources   = []string{"nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"}
	mathSources = []string{"lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500"}
)

func functionOf(s *Sample) (string, bool) {
	if name, ok := SourceFunction(s.Source); ok {
		return name, true
	}
	return "goal", s.Turns != nil
}

// SourceFunction is the function of single replies to the rows of a
// data_source, one that compares with their ground truth, if there is one.
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
