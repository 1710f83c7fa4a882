package hydra

import (
	"cmp"
	"slices"
	"strings"
)

// finish makes the settings that depend on several keys.
func (im *importer) finish() {
	if im.of == sft {
		im.finishSFT()
		return
	}
	if im.count("model.lora_rank", 0) > 0 {
		im.drop("with model.lora_rank the reference shares the frozen weights with the policy", func(key string) bool { return key == "ref.offload_params" })
	}
	im.prompts()
	im.templateVariables()
	im.batches()
	for _, at := range []string{"actor.optim.", "critic.optim."} {
		im.schedule(at)
	}
	im.components()
}

// count returns the integer value of one of our keys, or the argument other if the key is not set.
func (im *importer) count(key string, other int64) int64 {
	if n, ok := im.out[key].value.(int64); ok {
		return n
	}
	return other
}

// batches converts mini-batch sizes. Upstream they count prompts, and the workers multiply them by
// rollout.n (spec 7.3). The critic of verl 0.8 multiplies too; OpenManus-RL's does not. Here they
// count episodes. A mini-batch larger than a step becomes the whole step, and the critic's
// mini-batch defaults to the actor's.
func (im *importer) batches() {
	const mini = actorAt + "ppo_mini_batch_size"
	actor := im.byKey[mini]
	if i := slices.IndexFunc(im.defaults, func(r *Row) bool { return r.Key == mini }); actor == nil && i >= 0 {
		actor = im.defaults[i]
	}
	critic := im.byKey["critic.ppo_mini_batch_size"]
	if n := im.given[rolloutAt+"n"]; len(n.Missing) > 0 {
		for _, r := range []*Row{actor, critic} {
			if r != nil && r.Status == Mapped && !r.Default {
				r.open(n.Missing)
			}
		}
		delete(im.out, "critic.mini_batch_size")
		return
	}
	n, _ := im.val(rolloutAt+"n", int64(1)).(int64)
	n = max(n, 1)
	criticN := n
	if im.of == omrl {
		criticN = 1
	}
	if actor != nil && actor.Status == Mapped {
		rows := im.val(mini, int64(256))
		im.put(actor, "actor.mini_batch_size", times(rows, n))
		if critic == nil && actor.Status == Mapped {
			im.put(actor, "critic.mini_batch_size", times(rows, criticN))
		}
		if n > 1 && actor.Status == Mapped {
			actor.addNote(timesN)
		}
	}
	if critic != nil && critic.Status == Mapped && criticN > 1 {
		im.put(critic, "critic.mini_batch_size", times(im.val(critic.Key, nil), criticN))
		critic.addNote(timesN)
	}
	im.capped("actor.mini_batch_size")
	im.capped("critic.mini_batch_size")
}

const timesN = "counts prompts in the original and episodes here: multiplied by " + rolloutAt + "n"

// times multiplies v by n if v is an integer.
func times(v any, n int64) any {
	if rows, ok := v.(int64); ok && rows < 1<<31 && n < 1<<31 {
		return rows * n
	}
	return v
}

// capped sets a mini-batch of more rows than a step to 0, which means all rows.
func (im *importer) capped(key string) {
	rows := im.count("data.train_batch_size", 32) * im.count("rollout.group_size", 8)
	s, ok := im.out[key]
	if !ok || im.count(key, 0) <= rows {
		return
	}
	im.out[key] = setting{int64(0), s.from}
	if s.from != nil {
		s.from.addNote("larger than a step: 0, which means all rows")
	}
}

// schedule removes the warm-up ratio if a number of warm-up steps is set.
func (im *importer) schedule(at string) {
	if s, ok := im.out[at+"warmup_steps"]; ok {
		im.drop("the number of warm-up steps applies", func(key string) bool { return key == at+"warmup_ratio" })
		im.out[at+"warmup_ratio"] = setting{0.0, s.from}
	}
}

// components sets the reward components that a command line enables. With the
// environment's reward alone no component is needed.
func (im *importer) components() {
	on := func(part string, usual bool) bool { return im.val(partsAt+part+".enabled", usual) == true }
	goal, length, format := on("goal_reward", true), on("length_penalty", false), on("format_reward", false)
	overlong := im.overlong()
	if !length && !format && !overlong {
		for _, key := range im.order {
			if r := im.byKey[key]; strings.HasPrefix(key, partsAt) && r.Status == Mapped {
				r.ignored("no other component is enabled: the environment's reward alone, the default")
			}
		}
		return
	}
	set := func(part, leaf, key string, usual any) {
		r := cmp.Or(im.byKey[partsAt+part+"."+leaf], im.byKey[partsAt+part+".enabled"])
		if v := im.val(partsAt+part+"."+leaf, usual); r != nil && v != nil {
			im.put(r, componentsAt+key, v)
		}
	}
	if goal {
		set("goal_reward", "weight", "goal.weight", 1.0)
		if _, ok := im.out[componentsAt+"goal.weight"]; !ok {
			im.out[componentsAt+"goal.weight"] = setting{1.0, nil}
		}
	}
	if length {
		set("length_penalty", "weight", "length.weight", -0.01)
		set("length_penalty", "max_length", "length.max_length", int64(450))
		set("length_penalty", "min_length", "length.min_length", int64(20))
		kind := im.val(partsAt+"length_penalty.penalty_type", "linear")
		if kind == "log" {
			kind = "logarithmic"
		}
		if r := im.byKey[partsAt+"length_penalty.penalty_type"]; r != nil {
			im.put(r, componentsAt+"length.penalty_type", kind)
		}
	}
	if format {
		set("format_reward", "weight", "format.weight", 0.2)
		env := plain(im.out["env.name"].value)
		for _, name := range []string{env, "default"} {
			if _, ok := im.given[partsAt+"format_reward.patterns_by_env."+name]; ok {
				set("format_reward", "patterns_by_env."+name, "format.patterns", nil)
				break
			}
		}
	}
}

// finishSFT makes the settings of SFT. Without an environment, SFT validates on
// files or not at all.
func (im *importer) finishSFT() {
	im.schedule("sft.optim.")
	if _, ok := im.out["sft.val_files"]; !ok {
		im.out["trainer.test_every"] = setting{int64(0), nil}
		im.out["trainer.val_before_train"] = setting{false, nil}
	}
}

// overlongAt lists the prefixes of the keys of DAPO's penalty for long replies: in
// DAPO's recipe, and in verl 0.8.
var overlongAt = []string{"reward_model.overlong_buffer.", "reward_model.reward_kwargs.overlong_buffer_cfg."}

// overlong sets the component overlong and reports whether the penalty is enabled.
// The penalty falls linearly from 0 at max_length - len to -penalty_factor at
// max_length (spec 6.4). Upstream it counts the tokens of a reply, here all sampled
// tokens of an episode.
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
				r.ignored("the penalty for long replies is off, the default")
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
		switched.addNote("counts all sampled tokens of an episode; the original counts the tokens of a reply")
	}
	return true
}

// rewardManager notes the settings that replace upstream's reward manager.
func rewardManager(_ *importer, r *Row, v any) any {
	r.ignored("the environment gives the reward; reward.score_fn selects a score function")
	if v == "dapo" {
		r.ignored("dapo adds the penalty for long replies, which " + overlongAt[0] + "enable switches on; here the penalty is reward.components.overlong")
	}
	return nil
}
