package rollout

import (
	"fmt"
	"math"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
)

// Metrics summarises episodes under the names of spec 2.7, over sampled tokens
// instead of OpenManus-RL's padded window. Shares of outcomes are over all
// episodes; all other metrics are over trainable episodes, because the others
// ended for reasons outside the model. Metrics that do not apply are omitted.
func Metrics(episodes []*data.Episode) map[string]float64 {
	m := map[string]float64{}
	if len(episodes) == 0 {
		return m
	}
	count := map[data.Outcome]int{}
	groups := map[string]series{}
	starts, different := map[string]string{}, map[string]bool{}
	var uids []string // in the order of the episodes, so that sums do not depend on map order
	var actions, messages, rewards, sampled, tokens, prompts, attempts, stepMillis, genMillis series
	var finished, truncated, parsed, clipped, cut, turns, answered, empty float64
	for _, ep := range episodes {
		count[ep.Outcome]++
		attempts.add(float64(ep.Attempts))
		if !ep.Outcome.Trainable() {
			continue
		}
		if groups[ep.UID] == nil {
			uids = append(uids, ep.UID)
			starts[ep.UID] = ep.FirstObservation
		}
		if ep.FirstObservation != starts[ep.UID] {
			different[ep.UID] = true
		}
		groups[ep.UID] = append(groups[ep.UID], ep.Reward)
		actions.add(float64(len(ep.Turns)))
		messages.add(float64(max(1, 2*len(ep.Turns)))) // a prompt or an observation precedes every reply
		empty += share(ep.SampledTokens() == 0)
		rewards.add(ep.Reward)
		sampled.add(float64(ep.SampledTokens()))
		tokens.add(float64(len(ep.Tokens)))
		if len(ep.Turns) > 0 {
			prompts.add(float64(ep.Turns[0].Start))
			truncated += share(ep.PromptTruncated)
			finished += share(ep.Turns[len(ep.Turns)-1].Done)
		}
		for _, t := range ep.Turns {
			turns++
			clipped += share(t.Stop == string(engine.StopLength))
			genMillis.add(t.GenMillis)
			if t.Unjudged { // the action was not sent to the environment
				continue
			}
			answered++
			parsed += share(t.Parsed)
			cut += share(t.Truncated)
			stepMillis.add(t.EnvMillis)
		}
	}
	for _, o := range []data.Outcome{
		data.Success, data.Done, data.TurnLimit, data.ContextLimit, data.ParseLimit, data.OverlongPrompt, data.EnvError, data.EngineError, data.Cancelled,
	} {
		m["episode/outcome/"+string(o)] = float64(count[o]) / float64(len(episodes))
	}
	m["episode/attempts/mean"] = attempts.mean()
	if n := float64(len(actions)); n > 0 {
		actions.write(m, "env/number_of_actions")
		messages.write(m, "num_turns")
		rewards.write(m, "episode/reward")
		tokens.write(m, "episode/length")
		sampled.write(m, "response_length")
		m["response/aborted_ratio"] = empty / n
		m["env/finish_ratio"] = finished / n
		m["env/number_of_valid_action"] = parsed / n
		m["episode/success_rate"] = float64(count[data.Success]) / n
		writeGroups(m, uids, groups, len(different))
	}
	if len(prompts) > 0 {
		prompts.write(m, "prompt_length")
		m["prompt_length/clip_ratio"] = truncated / float64(len(prompts))
	}
	if turns > 0 {
		m["response_length/clip_ratio"] = clipped / turns
		genMillis.write(m, "env/generate_ms")
	}
	if answered > 0 {
		m["env/ratio_of_valid_action"] = parsed / answered
		m["env/ratio_of_truncated_observations"] = cut / answered
		stepMillis.write(m, "env/step_ms")
		sorted := slices.Sorted(slices.Values(stepMillis))
		for _, p := range []int{50, 90, 99} { // nearest rank
			m[fmt.Sprintf("env/step_ms/p%d", p)] = sorted[(len(sorted)*p+99)/100-1]
		}
	}
	return m
}

// writeGroups reports the spread of the environment's rewards within groups: a group without
// spread has no gradient under a group estimator, unless its episodes are scored differently. Groups of one sample are not
// counted. The parameter different is the number of groups with different starts.
func writeGroups(m map[string]float64, uids []string, groups map[string]series, different int) {
	var stds series
	var flat float64
	for _, uid := range uids {
		rewards := groups[uid]
		if len(rewards) < 2 {
			continue
		}
		mean, squares := rewards.mean(), 0.0
		for _, r := range rewards {
			squares += (r - mean) * (r - mean)
		}
		stds.add(math.Sqrt(squares / float64(len(rewards)-1)))
		flat += share(slices.Min(rewards) == slices.Max(rewards))
	}
	if len(stds) == 0 {
		return
	}
	m["group/reward_std"] = stds.mean()
	m["group/zero_spread_ratio"] = flat / float64(len(stds))
	m["group/different_starts"] = float64(different)
}

// series holds the values of a metric.
type series []float64

func (s *series) add(x float64) { *s = append(*s, x) }

func (s series) mean() float64 {
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum / float64(len(s))
}

// write writes the mean, maximum and minimum under name.
func (s series) write(m map[string]float64, name string) {
	m[name+"/mean"], m[name+"/max"], m[name+"/min"] = s.mean(), slices.Max(s), slices.Min(s)
}

func share(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
