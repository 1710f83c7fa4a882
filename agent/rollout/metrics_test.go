package rollout

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/data"
)

func TestMetrics(t *testing.T) {
	eps := []*data.Episode{
		{UID: "a", Outcome: data.Success, Reward: 1, Attempts: 1, Tokens: make([]int32, 10), Mask: []uint8{0, 0, 0, 0, 1, 1, 0, 0, 1, 1},
			PromptTruncated: true,
			Turns:           []data.Turn{{Start: 4, End: 6, Parsed: true, EnvMillis: 2}, {Start: 8, End: 10, Parsed: true, Done: true, EnvMillis: 4}}},
		{UID: "a", Outcome: data.TurnLimit, Attempts: 2, Tokens: make([]int32, 8), Mask: []uint8{0, 0, 1, 1, 1, 1, 1, 1},
			FirstObservation: "another",
			Turns:            []data.Turn{{Start: 2, End: 8, Stop: "length", Truncated: true, EnvMillis: 6}}},
		{UID: "b", Outcome: data.Done, Attempts: 1, Tokens: make([]int32, 3), Mask: []uint8{0, 0, 1},
			Turns: []data.Turn{{Start: 2, End: 3, Parsed: true, Done: true}}},
		// The second reply was truncated: it counts as a reply but not as an action.
		{UID: "b", Outcome: data.Done, Attempts: 1, Tokens: make([]int32, 3), Mask: []uint8{0, 0, 1},
			Turns: []data.Turn{{Start: 2, End: 3, Parsed: false, Done: true}, {Start: 3, End: 3, Stop: "context", Unjudged: true, EnvMillis: 90}}},
		// A failed episode is only counted; its reward of -9 must not appear.
		{UID: "b", Outcome: data.EnvError, Reward: -9, Attempts: 3, Turns: []data.Turn{{Parsed: true}}},
	}
	want := map[string]float64{
		"episode/outcome/success": .2, "episode/outcome/turn_limit": .2, "episode/outcome/done": .4, "episode/outcome/env_error": .2,
		"episode/outcome/context_limit": 0, "episode/outcome/parse_limit": 0, "episode/outcome/overlong_prompt": 0, "episode/outcome/engine_error": 0, "episode/outcome/cancelled": 0,
		"episode/attempts/mean":      8. / 5,
		"env/number_of_actions/mean": 6. / 4, "env/number_of_actions/max": 2, "env/number_of_actions/min": 1,
		"num_turns/mean": 3, "num_turns/max": 4, "num_turns/min": 2, "response/aborted_ratio": 0,
		"episode/reward/mean": .25, "episode/reward/max": 1, "episode/reward/min": 0,
		"episode/length/mean": 6, "episode/length/max": 10, "episode/length/min": 3,
		"response_length/mean": 3, "response_length/max": 6, "response_length/min": 1,
		"prompt_length/mean": 2.5, "prompt_length/max": 4, "prompt_length/min": 2, "prompt_length/clip_ratio": .25,
		"env/finish_ratio": .5, "env/number_of_valid_action": .75, "env/ratio_of_valid_action": 3. / 5,
		"env/ratio_of_truncated_observations": .2, "response_length/clip_ratio": 1. / 6,
		"episode/success_rate": .25, "group/reward_std": math.Sqrt(.5) / 2, "group/zero_spread_ratio": .5, "group/different_starts": 1,
		"env/step_ms/mean": 12. / 5, "env/step_ms/max": 6, "env/step_ms/min": 0,
		"env/step_ms/p50": 2, "env/step_ms/p90": 6, "env/step_ms/p99": 6,
		"env/generate_ms/mean": 0, "env/generate_ms/max": 0, "env/generate_ms/min": 0,
	}
	if diff := cmp.Diff(want, Metrics(eps), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMetricsOfEpisodeWithoutReply checks the metrics of an episode whose first messages fill the
// context: it has no reply and one message, the prompt. verl counts such an episode as aborted.
func TestMetricsOfEpisodeWithoutReply(t *testing.T) {
	m := Metrics([]*data.Episode{
		{UID: "a", Outcome: data.ContextLimit, Tokens: make([]int32, 4), Mask: make([]uint8, 4)},
		{UID: "a", Outcome: data.Done, Tokens: make([]int32, 4), Mask: []uint8{0, 0, 1, 1}, Turns: []data.Turn{{Start: 2, End: 4}}},
	})
	if m["response/aborted_ratio"] != .5 || m["num_turns/min"] != 1 || m["num_turns/max"] != 2 || m["response_length/min"] != 0 {
		t.Errorf("%v", m)
	}
}

func TestMetricsWithoutEpisodes(t *testing.T) {
	if m := Metrics(nil); len(m) != 0 {
		t.Errorf("no episodes: %v", m)
	}
	for name, v := range Metrics([]*data.Episode{{Outcome: data.Cancelled}, {UID: "x", Outcome: data.ContextLimit}}) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %g", name, v)
		}
	}
}
