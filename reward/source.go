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
// without a function is an error, as there.
//
// Differs in: AgentGym's environments are scored by their own reward.
// OpenManus-RL's agentgym function would start from that reward too, but is called
// with other arguments than it declares.
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

// ErrNoFunction is returned by data_source for a sample whose source has no
// function. The message continues with the source.
var ErrNoFunction = errors.New("no function for data_source")

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
