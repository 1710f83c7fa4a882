package hydra

import "slices"

// overlongAt is where DAPO's punishment of long replies is set: in its recipe,
// and in verl 0.8.
var overlongAt = []string{"reward_model.overlong_buffer.", "reward_model.reward_kwargs.overlong_buffer_cfg."}

// overlong adds it to what an episode is worth, and reports whether it is on.
// It is the same line, from max_length - len down to -penalty_factor at
// max_length (spec 6.4); there it is of a reply, here of all that an episode
// sampled.
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
				r.ignored("long replies are not punished, as by default")
			}
		}
	}
	if at == "" {
		return false
	}
	switched := im.byKey[at+"enable"]
	put := func(upstream, key string, v any) {
		r := im.byKey[upstream]
		if r == nil {
			r = switched
		}
		if r.Status == Mapped {
			im.put(r, componentsAt+"overlong."+key, v)
		}
	}
	put(longest, "max_length", im.val(longest, im.val("data.max_response_length", int64(512))))
	put(at+"len", "overlong_buffer", im.val(at+"len", int64(0)))
	put(at+"penalty_factor", "overlong_factor", im.val(at+"penalty_factor", 1.0))
	if switched.Status == Mapped {
		switched.say("of all tokens that an episode sampled, where the original means those of a reply")
	}
	return true
}

// rewardManager says what became of the manager's work.
func rewardManager(_ *importer, r *Row, _ row, v any) {
	if v == "dapo" {
		r.ignored("what it adds is the punishment of long replies, which " + overlongAt[0] + "enable switches on: reward.components.overlong here")
		return
	}
	r.ignored("episodes are paid what the environment says; reward.score_fn chooses a score function")
}
