package reward

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// Σ weight·component over four components of an episode:
//
//	env     clip(scale · Σ the turns' rewards, ± clip); of running scores the last one
//	format  max_r with think, memory, plan, think, act in this order; (max+min)/1.5 with
//	        all four anywhere; (max+min)/2 with think and act; else min_r
//	length  of all <think>: max_r within target·(1 ± tolerance), falling towards min_r outside
//	gt_sim  min_r + (max_r - min_r) · share of the ground truth's actions done in their order
//
// Source: OpenManus-RL verl/utils/reward_score/agentgym.py (spec 6.1), with
// its weights and defaults; the configuration keys are those of its
// reward_model_info.
//
// Differs in: texts are joined by a line end, and normalised actions keep
// their blanks and lose backslashes, as upstream means (its escapes are
// doubled, so that it joins by two characters and takes "go to desk 1" and
// "gotodesk 1" for the same action); the actions of the ground truth are the
// row's, as a JSON list; actions are those of <action> too; a sum of running
// scores, which sciworld, babyai and the tool environments hand out, counts the
// same points again with every turn.
func init() {
	Functions.Register("agentgym", Function{Keys: agentGymKeys, New: func(p Params) (func(*Sample) (Score, error), error) {
		return func(s *Sample) (Score, error) { return p.AgentGym.score(s), nil }, nil
	}})
}

var agentGymKeys = []string{
	"env_reward_weight", "env_reward_scale", "env_reward_clip",
	"format_reward_weight", "format_max_r", "format_min_r", "format_check_all_tags",
	"length_reward_weight", "length_max_r", "length_min_r", "length_target_words", "length_tolerance", "length_too_short_factor",
	"length_too_long_factor", "length_penalty_if_missing",
	"gt_sim_reward_weight", "gt_sim_max_r", "gt_sim_min_r",
}

// AgentGymParams are the parameters of agentgym.
type AgentGymParams struct {
	EnvWeight, EnvScale float64
	EnvClip             float64 // 0: none

	FormatWeight, FormatMax, FormatMin float64
	CheckAllTags                       bool

	LengthWeight, LengthMax, LengthMin float64
	TargetWords                        int
	Tolerance, TooShort, TooLong       float64
	PenaltyIfMissing                   bool

	SimWeight, SimMax, SimMin float64
}

// DefaultAgentGym are upstream's defaults.
func DefaultAgentGym() AgentGymParams {
	return AgentGymParams{
		EnvWeight: 0.25, EnvScale: 1, EnvClip: 5,
		FormatWeight: 0.25, FormatMax: 1, FormatMin: -0.5, CheckAllTags: true,
		LengthWeight: 0.15, LengthMax: 0.5, LengthMin: -0.25, TargetWords: 50, Tolerance: 0.3, TooShort: 0.5, TooLong: 0.5, PenaltyIfMissing: true,
		SimWeight: 0.35, SimMax: 1, SimMin: 0,
	}
}

// score is 0 for an episode without a reply.
func (a *AgentGymParams) score(s *Sample) Score {
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
	value := a.EnvWeight*parts["env"] + a.FormatWeight*parts["format"] + a.LengthWeight*parts["length"] + a.SimWeight*parts["gt_sim"]
	return Score{Value: value, Extra: parts}
}

func (a *AgentGymParams) env(sum float64) float64 {
	x := a.EnvScale * sum
	if a.EnvClip > 0 {
		x = max(-a.EnvClip, min(a.EnvClip, x))
	}
	return x
}

var (
	stagesInOrder = regexp.MustCompile(`(?s)<think>.*?</think>.*?<memory>.*?</memory>.*?<plan>.*?</plan>.*?<think>.*?</think>.*?<act>.*?</act>`)
	thinkThenAct  = regexp.MustCompile(`(?s)<think>.*?</think>\s*<act>.*?</act>`)
)

func (a *AgentGymParams) format(text string) float64 {
	has := func(tag string) bool { return len(tagged(text, tag)) > 0 }
	switch {
	case strings.TrimSpace(text) == "":
		return a.FormatMin
	case !a.CheckAllTags:
		if thinkThenAct.MatchString(text) {
			return a.FormatMax
		}
		return a.FormatMin
	case stagesInOrder.MatchString(text):
		return a.FormatMax
	case has("think") && has("memory") && has("plan") && has("act"):
		return (a.FormatMax + a.FormatMin) / 1.5
	case has("think") && has("act"):
		return (a.FormatMax + a.FormatMin) / 2
	}
	return a.FormatMin
}

func (a *AgentGymParams) length(text string) float64 {
	n := 0
	for _, thought := range tagged(text, "think") {
		n += len(strings.Fields(thought))
	}
	middle := (a.LengthMax + a.LengthMin) / 2
	if n == 0 {
		if a.PenaltyIfMissing {
			return a.LengthMin
		}
		return middle
	}
	if a.TargetWords <= 0 {
		return middle
	}
	words, target := float64(n), float64(a.TargetWords)
	lo, hi := target*(1-a.Tolerance), target*(1+a.Tolerance)
	fall := a.LengthMax - a.LengthMin
	switch {
	case words < lo:
		return max(a.LengthMin, a.LengthMax-fall*a.TooShort*(1-words/lo))
	case words > hi:
		return max(a.LengthMin, a.LengthMax-fall*a.TooLong*min(1, (words-hi)/hi))
	}
	return a.LengthMax
}

func (a *AgentGymParams) similarity(text, truth string) float64 {
	var want []string
	if strings.TrimSpace(truth) != "" && json.Unmarshal([]byte(truth), &want) != nil {
		want = nil // a ground truth of another kind names no actions
	}
	if len(want) == 0 {
		return (a.SimMax + a.SimMin) / 2
	}
	done := tagged(text, "act")
	if len(done) == 0 {
		done = tagged(text, "action")
	}
	if len(done) == 0 {
		return a.SimMin
	}
	matched := 0
	for _, action := range done {
		if matched < len(want) && normalizeAction(action) == normalizeAction(want[matched]) {
			matched++
		}
	}
	return a.SimMin + (a.SimMax-a.SimMin)*float64(matched)/float64(len(want))
}

var notInAction = regexp.MustCompile(`[^a-z0-9\s]`)

// normalizeAction lower-cases an action, and keeps letters, digits and single
// blanks.
func normalizeAction(s string) string {
	return strings.Join(strings.Fields(notInAction.ReplaceAllString(strings.ToLower(s), "")), " ")
}
