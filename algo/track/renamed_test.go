package track

// Renamed lists the metrics of OpenManus-RL and verl that have another name or
// no counterpart here.
var Renamed = []struct {
	Theirs string
	Here   string // name in Table; "": no counterpart
	Why    string
}{
	{"timing_s/logp", TimingSeconds + "/old_log_prob", "verl's later name"},
	{"timing_s/compute_values", TimingSeconds + "/values", "verl's later name"},
	{"mfu/{actor,critic}", Utilization + "/{actor,critic}", "verl's later name for the actor's"},
	{"actor/entropy", ActorEntropyLoss, "measured in the update; there is no separate pass"},
	{"actor/reward_kl_penalty", CriticKL, ""},
	{"actor/reward_kl_penalty_coeff", CriticKLCoeff, ""},
	{"response_length_non_aborted/*", "", "none: response_length counts episodes without a sampled token as 0; response/aborted_ratio is the share of these episodes"},
	{"env/number_of_valid_search", "", "none: it was always 0"},
	{"global_seqlen/*", "", "none: a single process has no load to balance"},
	{"training/rollout_probs_diff_{max,mean,std,valid}", LogProbGap + "_{mean,max,k3}", "differences of log-probs; verl's are differences of probabilities"},
	{"training/rollout_actor_probs_pearson_corr", "", "none: " + LogProbGap + "_{mean,max,k3} measure this distance"},
	{"training/num_turns/*", "num_turns" + stats, ""},
	{"training/filter_groups/*", FilteredGroups, ""},
	{"training/off_policy/{*,*/*}", "", "none: every step trains on episodes of the current weights, except with --off-policy"},
	{"perf/mfu/actor_infer", "", "none: " + Utilization + "/rollout covers the rollout phase"},
	{"perf/{max_memory_allocated_gb,max_memory_reserved_gb}", TensorBytes, "in bytes, at the end of the step; " + MemoryBytes + "/* are its parts"},
	{"perf/cpu_memory_used_gb", ProcessBytes, "in bytes, of this process"},
	{"val-core/*/*/*", Validation + "/*/{success_rate,mean_score}", "by environment"},
	{"val-aux/*/*/{*,*/*}", Validation + "/*/reward/*/*", "scores of score functions; mean@n, best@n and pass@k are reported by openmanus eval"},
	{"val-aux/num_turns/*", Validation + "/*/mean_turns", ""},
	{"timing_s/agent_loop/*/*", "env/{step_ms,generate_ms}" + stats, "in milliseconds"},
	{"timing_s/{dump_rollout_generations,update_weights,switch_to_rollout,switch_to_trainer,switch_wait,start_profile,stop_profile}", "", "none: sampling uses the trained weights directly, and rollouts are written within the step"},
	{"tool_call_counts/*", "env/number_of_valid_action", "a tool call is an action"},
	{"train/{global_tokens,mfu}", "train/tokens", "of the step; supervised training reports no MFU"},
	{"rollout/{moe,spec_accept_rate,spec_accept_length}", "", "none: there is no mixture of experts and no speculative decoding"},
}
