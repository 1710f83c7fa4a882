package track

// Renamed are the metrics of OpenManus-RL and verl that have another name here,
// or none.
var Renamed = []struct {
	Theirs string
	Here   string // of Table; "": none
	Why    string
}{
	{"timing_s/logp", TimingSeconds + "/old_log_prob", "verl's later name"},
	{"timing_s/compute_values", TimingSeconds + "/values", "verl's later name"},
	{"mfu/{actor,critic}", Utilization + "/{actor,critic}", "verl's later name for the actor's"},
	{"actor/entropy", ActorEntropyLoss, "that of the update; no pass of its own measures it"},
	{"actor/reward_kl_penalty", CriticKL, ""},
	{"actor/reward_kl_penalty_coeff", CriticKLCoeff, ""},
	{"prompt_length/clip_ratio", "", "none: a prompt that is too long is an error and never cut; env/ratio_of_truncated_observations is about observations"},
	{"response_length_non_aborted/*", "", "none: response_length counts an episode without a sampled token as 0; response/aborted_ratio says how many there are"},
	{"env/number_of_valid_search", "", "none: it was always 0"},
	{"global_seqlen/*", "", "none: one process has nothing to balance"},
}
