package reward

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// Σ weight·component over four components of an episode:
//
//	env     clip(scale · Σ the turns' rewards, ± clip); with running scores, the last score instead of Σ
//	format  max_r with think, memory, plan, think, act in this order; (max+min)/1.5 with
//	        all four anywhere; (max+min)/2 with think and act; else min_r
//	length  of all <think>: max_r within target·(1 ± wordTolerance), falling towards min_r outside
//	gt_sim  min_r + (max_r - min_r) · share of the ground truth's actions done in their order
//
// Source: OpenManus-RL verl/utils/reward_score/agentgym.py (spec 6.1), with
// its weights and defaults. The configuration keys have the names of its
// reward_model_info.
//
// Differs in: texts are joined by a newline, and normalised actions keep their
// spaces and lose backslashes, as upstream intends. Upstream's escapes are
// doubled, so that it joins with two characters and treats "go to desk 1" and
// "gotodesk 1" as the same action. The actions of the ground truth are a JSON
// list in the row. Actions in <action> count too. sciworld, babyai and the tool
// environments return running scores; their last score is used, since a sum would
// count the same points in every turn.
var (
	envWeight        = registry.NewParam("env_reward_weight", 0.25, "weight of the environment's rewards", registry.Finite)
	envScale         = registry.NewParam("env_reward_scale", 1.0, "factor of the sum of the environment's rewards", registry.Finite)
	envClip          = registry.NewParam("env_reward_clip", 5.0, "bound of the scaled sum's absolute value; 0: none", registry.AtLeast(0))
	formatWeight     = registry.NewParam("format_reward_weight", 0.25, "weight of the score of the tags", registry.Finite)
	formatMax        = registry.NewParam("format_max_r", 1.0, "score of a reply with think, memory, plan, think and act in this order", registry.Finite)
	formatMin        = registry.NewParam("format_min_r", -0.5, "score of a reply without think and act", registry.Finite)
	checkAllTags     = registry.NewParam("format_check_all_tags", true, "look for all five tags; false: for think and then act", registry.Any)
	lengthWeight     = registry.NewParam("length_reward_weight", 0.15, "weight of the score of the length of thoughts", registry.Finite)
	lengthMax        = registry.NewParam("length_max_r", 0.5, "score of thoughts of the target length", registry.Finite)
	lengthMin        = registry.NewParam("length_min_r", -0.25, "lowest score of the length", registry.Finite)
	targetWords      = registry.NewParam("length_target_words", 50, "target number of words of all thoughts; 0: any number", registry.AtLeast(0))
	wordTolerance    = registry.NewParam("length_tolerance", 0.3, "allowed deviation, as a share of the target", registry.Between(0, 1))
	tooShort         = registry.NewParam("length_too_short_factor", 0.5, "slope of the score below the target", registry.AtLeast(0))
	tooLong          = registry.NewParam("length_too_long_factor", 0.5, "slope of the score above the target", registry.AtLeast(0))
	penaltyIfMissing = registry.NewParam("length_penalty_if_missing", true, "a reply without a thought scores length_min_r; false: the middle of the range", registry.Any)
	simWeight        = registry.NewParam("gt_sim_reward_weight", 0.35, "weight of the similarity to the ground truth's actions", registry.Finite)
	simMax           = registry.NewParam("gt_sim_max_r", 1.0, "score if all of the ground truth's actions occur in order", registry.Finite)
	simMin           = registry.NewParam("gt_sim_min_r", 0.0, "score if none of the ground truth's actions occurs", registry.Finite)
)

func init() {
	Functions.Add(registry.Entry{
		Name: "agentgym", Doc: "OpenManus-RL's composite of environment reward, tags, length of thoughts and similarity to the ground truth",
		Params: []registry.Param{
			envWeight.Param, envScale.Param, envClip.Param, formatWeight.Param, formatMax.Param, formatMin.Param, checkAllTags.Param,
			lengthWeight.Param, lengthMax.Param, lengthMin.Param, targetWords.Param, wordTolerance.Param, tooShort.Param, tooLong.Param,
			penaltyIfMissing.Param, simWeight.Param, simMax.Param, simMin.Param,
		},
	}, Function{Score: func(v registry.Values, s *Sample) (Score, error) {
		return agentGym{v}.score(s), nil
	}})
}

// agentGym holds the values of the parameters.
type agentGym struct{ v registry.Values }

// score is 0 for an episode without a reply.
func (a agentGym) score(s *Sample) Score {
	replies := s.replies()
	if len(replies) == 0 {
		return Score{}
	}
	text := strings.Join(replies, "\n")
	env := s.EnvReward
	switch {
	case s.Cumulative:
		env = Signal(Last).Of(&data.Episode{Cumulative: true})(s.Turns)
	case s.Turns != nil:
		env = Sum(s.Turns)
	}
	parts := map[string]float64{
		"env":    a.env(env),
		"format": a.format(text),
		"length": a.length(text),
		"gt_sim": a.similarity(text, s.GroundTruth),
	}
	value := envWeight.In(a.v)*parts["env"] + formatWeight.In(a.v)*parts["format"] + lengthWeight.In(a.v)*parts["length"] + simWeight.In(a.v)*parts["gt_sim"]
	return Score{Value: value, Extra: parts}
}

func (a agentGym) env(sum float64) float64 {
	x := envScale.In(a.v) * sum
	if envClip.In(a.v) > 0 {
		x = max(-envClip.In(a.v), min(envClip.In(a.v), x))
	}
	return x
}

var (
	stagesInOrder = regexp.MustCompile(`(?s)<think>.*?</think>.*?<memory>.*?</memory>.*?<plan>.*?</plan>.*?<think>.*?</think>.*?<act>.*?</act>`)
	thinkThenAct  = regexp.MustCompile(`(?s)<think>.*?</think>\s*<act>.*?</act>`)
)

func (a agentGym) format(text string) float64 {
	has := func(tag string) bool { return len(tagged(text, tag)) > 0 }
	switch {
	case strings.TrimSpace(text) == "":
		return formatMin.In(a.v)
	case !checkAllTags.In(a.v):
		if thinkThenAct.MatchString(text) {
			return formatMax.In(a.v)
		}
		return formatMin.In(a.v)
	case stagesInOrder.MatchString(text):
		return formatMax.In(a.v)
	case has("think") && has("memory") && has("plan") && has("act"):
		return (formatMax.In(a.v) + formatMin.In(a.v)) / 1.5
	case has("think") && has("act"):
		return (formatMax.In(a.v) + formatMin.In(a.v)) / 2
	}
	return formatMin.In(a.v)
}

func (a agentGym) length(text string) float64 {
	n := 0
	for _, thought := range tagged(text, "think") {
		n += len(strings.Fields(thought))
	}
	middle := (lengthMax.In(a.v) + lengthMin.In(a.v)) / 2
	if n == 0 {
		if penaltyIfMissing.In(a.v) {
			return lengthMin.In(a.v)
		}
		return middle
	}
	if targetWords.In(a.v) <= 0 {
		return middle
	}
	words, target := float64(n), float64(targetWords.In(a.v))
	lo, hi := target*(1-wordTolerance.In(a.v)), target*(1+wordTolerance.In(a.v))
	fall := lengthMax.In(a.v) - lengthMin.In(a.v)
	switch {
	case words < lo:
		return max(lengthMin.In(a.v), lengthMax.In(a.v)-fall*tooShort.In(a.v)*(1-words/lo))
	case words > hi:
		return max(lengthMin.In(a.v), lengthMax.In(a.v)-fall*tooLong.In(a.v)*min(1, (words-hi)/hi))
	}
	return lengthMax.In(a.v)
}

func (a agentGym) similarity(text, truth string) float64 {
	var want []string
	if strings.TrimSpace(truth) != "" && json.Unmarshal([]byte(truth), &want) != nil {
		want = nil // a ground truth that is not a list of actions
	}
	if len(want) == 0 {
		return (simMax.In(a.v) + simMin.In(a.v)) / 2
	}
	done := tagged(text, "act")
	if len(done) == 0 {
		done = tagged(text, "action")
	}
	if len(done) == 0 {
		return simMin.In(a.v)
	}
	matched := 0
	for _, action := range done {
		if matched < len(want) && normalizeAction(action) == normalizeAction(want[matched]) {
			matched++
		}
	}
	return simMin.In(a.v) + (simMax.In(a.v)-simMin.In(a.v))*float64(matched)/float64(len(want))
}

var notInAction = regexp.MustCompile(`[^a-z0-9\s]`)

// normalizeAction lower-cases an action, and keeps letters, digits and single
// blanks.
func normalizeAction(s string) string {
	return strings.Join(strings.Fields(notInAction.ReplaceAllString(strings.ToLower(s), "")), " ")
}
