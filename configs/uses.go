package configs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// A use is the condition under which a key is read. Setting a key whose use does
// not hold is an error that names the condition.
type use struct {
	with  string                      // the required settings, as the user writes them
	holds func(c *Config, i int) bool // i is the index of the key's [[env]] table or component
	also  *use                        // a further condition, or nil
}

// useGroup declares when the keys of a group are read; nil means always. Keys are
// separated by spaces. "section.*" means all keys of the section without a group
// of their own. Keys for one kind of device count as always read, so that one file
// serves a CPU and a GPU. The keys of a registered implementation are read if the
// configuration selects it.
type useGroup struct {
	when *use
	keys string
}

// uses returns the conditions of every key that this package declares.
func (s *Schema) uses() []useGroup {
	var (
		formats = func(keep func(registry.Format) bool) []string { return registry.NamesOf(s.words.Formats, keep) }
		byScore = registry.NamesOf(s.words.Estimators, func(e registry.Estimator) bool { return e.ByScore })
		critic  = s.estimator(func(e registry.Estimator) bool { return e.Critic })

		prompting = formats(func(f registry.Format) bool { return f.WritesPrompts })

		// filter_metric is used with estimators that compare groups only by the score.
		groupFilter = either("algo.filter_groups = true, or algo.adv_estimator = "+alternatives(byScore), func(c *Config) bool {
			return c.Algo.FilterGroups || slices.Contains(byScore, c.Algo.AdvEstimator)
		}).and(policyGradient)

		// A shared critic has separate updates only during its warm-up. Its values may
		// need a separate pass in every step.
		ownPasses = either("critic.shared = false, or trainer.critic_warmup above 0", func(c *Config) bool {
			return !c.Critic.Shared || c.Trainer.CriticWarmup > 0
		}).and(critic)
	)
	return []useGroup{
		// The model.
		{nil, `model.path model.tokenizer_path model.device model.master_dtype model.compute_dtype model.gradient_checkpointing
		model.lora_rank model.fresh.layers`},
		{lora, "model.lora_alpha model.lora_dropout model.target_modules"},
		{fresh, "model.fresh.*"},
		{among("model.fresh.vocabulary", "bpe").and(fresh), "model.fresh.vocab_size"},
		{walks, "model.fresh.walk_turns model.fresh.walk_batch_size model.fresh.walk_lr"},

		// The environments and the data.
		{nil, `env.name env.label env.servers env.tasks env.val_tasks env.skip_tasks env.max_turns env.format env.parser env.action_format
		env.timeout_s env.create_timeout_s env.reset_timeout_s env.step_timeout_s env.observe_timeout_s env.close_timeout_s env.retries
		env.max_instances env.max_requests env.quarantine_after env.wait_healthy_s env.instruction env.instruction_file env.launch
		data.train_limit data.val_limit data.max_prompt_tokens data.filter_overlong data.train_batch_size data.seed data.from_dump`},
		{mixed, "env.weight"},
		{either("sft.epochs above 0, model.fresh.layers above 0 or algo.name = \"agentevol\"", trajectories), "env.expert_tasks"},
		{among("env.format", prompting...), "env.history_length"},
		{among("env.format", "history"), "env.use_summary"},
		{among("env.format", "staged"), "env.memory_file"},
		{among("env.format", formats(func(f registry.Format) bool { return f.Final })...), "env.final_ends"},
		{served("textcraft"), "env.recipes"},
		{served("wordle"), "env.vocabulary"},
		{on("env.launch"), `env.num_servers env.base_port env.checkout env.command env.workdir env.environment env.python env.venv
		env.start_timeout_s env.hang_timeout_s`},
		{among("curriculum.sampler", "uniform"), "data.shuffle"},
		{fromDump, "data.off_policy"},
		{off("data.filter_overlong"), "data.truncation"},

		// The episodes.
		{nil, `agent.max_obs_tokens agent.max_parse_failures agent.max_workers agent.episode_retries agent.episode_replays
		rollout.engine rollout.group_size rollout.temperature rollout.top_p rollout.top_k rollout.max_new_tokens rollout.max_context_tokens
		rollout.max_sequences rollout.max_batch_tokens rollout.kv_cache_fraction rollout.ignore_eos rollout.deterministic
		rollout.val.temperature rollout.val.group_size`},
		{fills("format", func(c *Config, e *Env) bool { return e.Format == c.Agent.Format }), "agent.format"},
		{fills("max_turns", func(c *Config, e *Env) bool { return e.MaxTurns == c.Agent.MaxTurns }), "agent.max_turns"},
		{fills("history_length and has format = "+alternatives(prompting), func(c *Config, e *Env) bool {
			return s.WritesPrompts(e.Format) && e.HistoryLength == c.Agent.HistoryLength
		}), "agent.history_length"},
		{fills(`memory_file and has format = "staged"`, func(c *Config, e *Env) bool {
			return e.Format == "staged" && e.MemoryFile == c.Agent.MemoryFile
		}), "agent.memory_file"},
		{summaries, "agent.summary.*"},
		{off("rollout.deterministic"), "rollout.enable_prefix_caching"},
		{policyGradient, "rollout.max_logprob_gap rollout.fail_on_logprob_gap"},
		{among("rollout.engine", openai), "rollout.api.*"},

		// The reward.
		{policyGradient, `reward.signal reward.allocation reward.turn_penalty reward.invalid_action_penalty reward.score_fn
		` + components + "fn " + components + "weight"},
		{among("reward.allocation", "discounted").and(policyGradient), "reward.gamma"},
		{s.scoreFnReads("format_score"), "reward.format_score"},
		{s.scoreFnReads("min_answer_tags"), "reward.min_answer_tags"},
		{externalReward, "reward.score_timeout_s reward.score_batch_size"},
		{modelReward, "reward.model_path reward.model_micro_batch_size reward.model_max_tokens reward.model_offload_params"},

		// The algorithm.
		{nil, "algo.name"},
		{policyGradient, `algo.adv_estimator algo.use_kl_in_reward algo.filter_groups algo.pf_ppo algo.rollout_correction.rollout_is
		algo.rollout_correction.rollout_rs algo.rollout_correction.rollout_rs_threshold algo.rollout_correction.bypass_mode`},
		{groupFilter, "algo.filter_metric"},
		{klInReward, "algo.kl_penalty algo.kl_ctrl algo.kl_coef"},
		{among("algo.kl_ctrl", "adaptive").and(klInReward), "algo.kl_target algo.kl_horizon"},
		{on("algo.filter_groups").and(policyGradient), "algo.max_gen_batches"},
		{agentevol, "algo.agentevol.*"},
		{importanceWeights, `algo.rollout_correction.rollout_is_threshold algo.rollout_correction.rollout_is_threshold_lower
		algo.rollout_correction.rollout_is_batch_normalize`},
		{on("algo.rollout_correction.bypass_mode").and(policyGradient), "algo.rollout_correction.loss_type"},
		{nil, "curriculum.max_turns curriculum.sampler curriculum.failures"},
		{above0("curriculum.failures", func(c *Config) bool { return c.Curriculum.Failures > 0 }), "curriculum.rest_steps"},

		// The updates.
		{nil, `actor.mini_batch_size actor.dynamic_batch actor.ppo_epochs actor.grad_clip actor.offload_optimizer actor.optim.lr
		actor.optim.betas actor.optim.eps actor.optim.weight_decay actor.optim.schedule actor.optim.warmup_ratio actor.optim.warmup_steps`},
		{policyGradient, "actor.policy_loss actor.loss_agg actor.entropy_coef actor.calculate_entropy actor.use_kl_loss"},
		{off("actor.dynamic_batch"), "actor.micro_batch_size"},
		{on("actor.dynamic_batch"), "actor.max_tokens_per_micro_batch"},
		{above0("actor.mini_batch_size", func(c *Config) bool { return c.Actor.MiniBatchSize > 0 }), "actor.shuffle"},
		{among("actor.loss_agg", "seq-mean-token-sum-norm").and(policyGradient), "actor.loss_scale_factor"},
		{klLoss, "actor.kl_loss_coef actor.kl_loss_type"},
		{falls("actor.optim"), "actor.optim.min_lr_ratio"},
		{critic, "critic.* critic.optim.* trainer.critic_warmup"},
		{ownPasses, "critic.mini_batch_size critic.epochs"},
		{above0("critic.mini_batch_size", func(c *Config) bool { return c.Critic.MiniBatchSize > 0 }).and(ownPasses), "critic.shuffle"},
		{off("actor.dynamic_batch").and(critic), "critic.micro_batch_size"},
		{on("critic.shared").and(critic), "critic.vf_coef"},
		{falls("critic.optim").and(critic), "critic.optim.min_lr_ratio"},
		{reference, "ref.path ref.offload_params"},
		{off("actor.dynamic_batch").and(reference), "ref.micro_batch_size"},

		// Supervised training.
		{nil, "sft.epochs"},
		{either("sft.epochs above 0 or algo.name = \"agentevol\"", func(c *Config) bool { return c.SFT.Epochs > 0 || c.Evolves() }),
			"sft.max_length sft.truncation"},
		{either("sft.epochs above 0, model.fresh.layers above 0 or algo.name = \"agentevol\"", trajectories),
			"sft.files sft.prompt_key sft.response_key sft.skip_idle"},
		{imitation, "sft.total_steps sft.val_files sft.train_batch_size sft.dynamic_batch sft.grad_clip"},
		{off("sft.dynamic_batch").and(imitation), "sft.micro_batch_size"},
		{on("sft.dynamic_batch").and(imitation), "sft.max_tokens_per_micro_batch"},
		{fromDump.and(imitation), "sft.dump_success"},
		{off("sft.dump_success").and(fromDump.and(imitation)), "sft.dump_min_reward"},
		{imitation, "sft.optim.*"},
		{either("sft.epochs above 0 or model.fresh.walks above 0", func(c *Config) bool { return c.SFT.Epochs > 0 || walks.met(c, 0) }),
			"sft.optim.betas sft.optim.eps sft.optim.weight_decay"},
		{falls("sft.optim").and(imitation), "sft.optim.min_lr_ratio"},

		// The run.
		{nil, `trainer.experiment trainer.experiment_suffix trainer.total_steps trainer.save_every trainer.test_every trainer.val_before_train
		trainer.keep_checkpoints trainer.keep_rollouts trainer.best_metric trainer.resume trainer.output_dir trainer.seed perf.peak_tflops log.backends log.level`},
		{either("trainer.keep_rollouts at least 0", func(c *Config) bool { return c.Trainer.KeepRollouts >= 0 }), "trainer.compress_rollouts"},
		{among("trainer.experiment", ""), "trainer.project"},
		{among0("trainer.total_steps", func(c *Config) bool { return c.Trainer.TotalSteps == 0 }), "trainer.epochs"},
	}
}

// The conditions that several keys share.
var (
	policyGradient = among("algo.name", "policy_gradient")
	agentevol      = among("algo.name", "agentevol")

	lora  = above0("model.lora_rank", func(c *Config) bool { return c.Model.LoRARank > 0 })
	fresh = above0("model.fresh.layers", func(c *Config) bool { return c.Model.Fresh.Layers > 0 })
	walks = above0("model.fresh.walks", func(c *Config) bool { return c.Model.Fresh.Walks > 0 }).and(fresh)

	klInReward = on("algo.use_kl_in_reward").and(policyGradient)
	klLoss     = on("actor.use_kl_loss").and(policyGradient)
	reference  = either("actor.use_kl_loss = true or algo.use_kl_in_reward = true", (*Config).UsesReference).and(policyGradient)
	imitation  = above0("sft.epochs", func(c *Config) bool { return c.SFT.Epochs > 0 })
	fromDump   = either("a dump in data.from_dump", func(c *Config) bool { return c.Data.FromDump != "" })

	mixed = &use{with: "several [[env]] tables", holds: func(c *Config, i int) bool { return len(c.Env) > 1 || c.Env[i].Weight == 0 }}

	summaries = either("use_summary = true in an [[env]] table", func(c *Config) bool {
		return slices.ContainsFunc(c.Env, func(e Env) bool { return e.UseSummary && e.Format == "history" })
	})

	importanceWeights = either("algo.rollout_correction.rollout_is = \"token\" or \"sequence\"", func(c *Config) bool {
		return c.Algo.RolloutCorrection.IS != ""
	}).and(policyGradient)

	// bypass_mode with reinforce has no ratio.
	ratioLoss = either("algo.rollout_correction.loss_type = \"ppo_clip\"", func(c *Config) bool {
		r := c.Algo.RolloutCorrection
		return !r.BypassMode || r.LossType != "reinforce"
	})

	externalReward = either("a score function that is an http://, https:// or exec: one", func(c *Config) bool {
		return c.scoresWith(ExternalScoreFn)
	}).and(policyGradient)
	modelReward = either("the score function model, in reward.score_fn or [reward.components.model]", func(c *Config) bool {
		return c.scoresWith(func(fn string) bool { return fn == ModelScoreFn })
	}).and(policyGradient)
)

// estimator holds for the estimators for which keep returns true.
func (s *Schema) estimator(keep func(registry.Estimator) bool) *use {
	return among("algo.adv_estimator", registry.NamesOf(s.words.Estimators, keep)...).and(policyGradient)
}

// among holds if the value of a string key is one of values.
func among(key string, values ...string) *use {
	return &use{with: strings.TrimPrefix(key, "env.") + " = " + alternatives(values), holds: func(c *Config, i int) bool {
		return slices.Contains(values, c.field(instance(key, i)).String())
	}}
}

func on(key string) *use { return switched(key, true) }

func off(key string) *use { return switched(key, false) }

func switched(key string, want bool) *use {
	name := strings.TrimPrefix(key, "env.")
	with := name + " = true"
	if !want {
		with = name + " = false"
	}
	return &use{with: with, holds: func(c *Config, i int) bool { return c.field(instance(key, i)).Bool() == want }}
}

// either holds if holds returns true.
func either(with string, holds func(*Config) bool) *use {
	return &use{with: with, holds: func(c *Config, _ int) bool { return holds(c) }}
}

func above0(key string, holds func(*Config) bool) *use { return either(key+" above 0", holds) }

func among0(key string, holds func(*Config) bool) *use { return either(key+" = 0", holds) }

// fills holds if an [[env]] table takes the value of key from [agent].
func fills(key string, takes func(c *Config, e *Env) bool) *use {
	return either("an [[env]] table that leaves out "+key, func(c *Config) bool {
		for i := range c.Env {
			if takes(c, &c.Env[i]) {
				return true
			}
		}
		return len(c.Env) == 0
	})
}

// served holds if the environment runs on its built-in server.
func served(name string) *use {
	return &use{with: "the built-in " + name + " server", holds: func(c *Config, i int) bool {
		e := &c.Env[i]
		return e.Name == name && len(e.Servers) == 0 && !e.Launch
	}}
}

// falls holds if the schedule of a learning rate has a final value.
func falls(section string) *use { return among(section+".schedule", "linear", "cosine") }

// scoreFnReads holds if reward.score_fn has the parameter.
func (s *Schema) scoreFnReads(parameter string) *use {
	return among("reward.score_fn", s.scores.names(parameter)...).and(policyGradient)
}

// componentReads holds if a component's function has the parameter.
func (s *Schema) componentReads(parameter string) *use {
	fns := s.scores.names(parameter)
	return &use{with: "fn = " + alternatives(fns), also: policyGradient, holds: func(c *Config, i int) bool {
		p := &c.Reward.Components[i]
		return slices.Contains(fns, cmp.Or(p.Fn, p.Name))
	}}
}

// trajectories reports whether recorded trajectories are loaded.
func trajectories(c *Config) bool { return c.SFT.Epochs > 0 || c.Model.Fresh.Layers > 0 || c.Evolves() }

// scoresWith reports whether kind holds for a configured score function.
func (c *Config) scoresWith(kind func(fn string) bool) bool {
	return kind(c.Reward.ScoreFn) || slices.ContainsFunc(c.Reward.Components, func(p Component) bool { return kind(cmp.Or(p.Fn, p.Name)) })
}

// and returns the conjunction of u and also.
func (u *use) and(also *use) *use {
	return &use{with: u.with, holds: u.holds, also: &use{with: also.with, holds: also.holds, also: joined(u.also, also.also)}}
}

func joined(a, b *use) *use {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return a.and(b)
}

// met reports whether the key is read.
func (u *use) met(c *Config, i int) bool { return len(u.unmet(c, i)) == 0 }

// unmet lists the conditions that do not hold, the outermost first.
func (u *use) unmet(c *Config, i int) []string {
	var out []string
	for ; u != nil; u = u.also {
		if !u.holds(c, i) && !slices.Contains(out, u.with) {
			out = append([]string{u.with}, out...)
		}
	}
	return out
}

// declaredUses maps every key to the condition under which it is read.
func (s *Schema) declaredUses() map[string]*use {
	all := map[string]*use{}
	declare := func(key string, when *use) {
		if _, twice := all[key]; twice {
			panic("configs: two uses of " + key)
		}
		all[key] = when
	}
	groups := s.uses()
	for _, group := range groups {
		for key := range strings.FieldsSeq(group.keys) {
			if !strings.HasSuffix(key, ".*") {
				declare(key, group.when)
			}
		}
	}
	for _, c := range []choice{s.losses, s.estimators, s.reweightings} {
		for _, e := range c.keys() {
			when := among(c.key, c.names(e.param.Key)...).and(policyGradient)
			if c.key == s.losses.key {
				when = when.and(ratioLoss)
			}
			declare(e.name, when)
		}
	}
	for _, e := range s.componentKeys() {
		if _, own := all[e.name]; !own {
			declare(e.name, s.componentReads(strings.TrimPrefix(e.name, components)))
		}
	}
	for _, group := range groups {
		for pattern := range strings.FieldsSeq(group.keys) {
			section, ok := strings.CutSuffix(pattern, ".*")
			if !ok {
				continue
			}
			for _, e := range s.table {
				if _, own := all[e.name]; !own && e.status == Ready && sectionOf(e.name) == section {
					all[e.name] = group.when
				}
			}
		}
	}
	return all
}

// alternatives writes values as `"a", "b" or "c"`.
func alternatives(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	if n := len(quoted); n > 1 {
		return strings.Join(quoted[:n-1], ", ") + " or " + quoted[n-1]
	}
	return strings.Join(quoted, "")
}
