package hydra

import (
	"cmp"
	"slices"
)

// overlongAt lists the prefixes of the keys of DAPO's penalty for long replies, in
// its recipe and in verl 0.8.
var overlongAt = []string{"reward_model.overlong_buffer.", "reward_model.reward_kwargs.overlong_buffer_cfg."}

// overlong sets the component overlong and reports whether the penalty is enabled.
// The penalty falls linearly from 0 at max_length - len to -penalty_factor at
// max_length (spec 6.4). Upstream the length is that of a reply, here that of all
// sampled tokens of an episode.
func (im *importer) overlong() bool {
	const longest = "reward_model.reward_kwargs.max_resp_len"
	at := ""
	for _, from := range overlongAt {
		if im.val(from+"enable", false) == true {
			at = from
		}
	}
	for _, from := range append(slices.Clone(overlongAt), longest) {
		for _, leaf := range []string{"enable", "len", "penalty_factor", ""} {
			if r := im.byKey[from+leaf]; r != nil && r.Status == Mapped && at == "" {
				r.ignored("there is no penalty for long replies, the default")
			}
		}
	}
	if at == "" {
		return false
	}
	switched := im.byKey[at+"enable"]
	put := func(upstream, key string, v any) {
		if r := cmp.Or(im.byKey[upstream], switched); r.Status == Mapped {
			im.put(r, componentsAt+"overlong."+key, v)
		}
	}
	put(longest, "max_length", im.val(longest, im.val("data.max_response_length", int64(512))))
	put(at+"len", "overlong_buffer", im.val(at+"len", int64(0)))
	put(at+"penalty_factor", "overlong_factor", im.val(at+"penalty_factor", 1.0))
	if switched.Status == Mapped {
		switched.say("counts all sampled tokens of an episode; the original counts those of a reply")
	}
	return true
}

// rewardManager reports which settings replace the manager.
func rewardManager(_ *importer, r *Row, v any) any {
	r.ignored("the environment gives the reward; reward.score_fn selects a score function")
	if v == "dapo" {
		r.ignored("it adds the penalty for long replies, which " + overlongAt[0] + "enable switches on; here it is reward.components.overlong")
	}
	return nil
}
