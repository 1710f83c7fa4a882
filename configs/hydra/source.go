package hydra

import (
	"slices"
	"strings"
)

// Keys that only one of the trainers has tell whose command line it is: their
// defaults differ, and keys that OpenManus-RL accepts and forgets are read by
// the others.
var (
	// ownOMRL are OpenManus-RL's of May 2025 (spec 1.3).
	ownOMRL = []string{
		"data.{env_name,env_server_base,env_ports,env_data_len,train_data_num,val_data_num,max_start_length,max_obs_length}",
		"data.{shuffle_train_dataloader,react_format,rollout_strategy,max_workers}", rolloutAt + "{n_agent,max_workers}", actorAt + "state_masking",
		"{max_turns,do_search,retriever.*,format_score}", "algorithm.{no_think_rl,reward_score_fn,reward_allocation,state_masking.*,reward_components.*}",
	}
	// ownOMRL2 are those of September 2025 (spec 1.5); the rest of it is verl's.
	ownOMRL2 = []string{
		"env.*", "{memory_file,use_staged_format}", "algorithm.gigpo.*", actorAt + "{use_invalid_action_penalty,invalid_action_penalty_coef}",
	}
	// ownVerl are verl's, beside the rows that say so (spec 1.6).
	ownVerl = []string{
		"data.{truncation,filter_overlong_prompts}", rolloutAt + "val_kwargs.*", "algorithm.filter_groups.*",
		actorAt + "ppo_micro_batch_size_per_gpu", "critic.{ppo_micro_batch_size_per_gpu,forward_micro_batch_size_per_gpu}",
		"actor_rollout_ref.{ref,rollout}.log_prob_micro_batch_size_per_gpu", "reward_model.{micro_batch_size_per_gpu,launch_reward_fn_async}",
	}
)

// verlDefaults are verl's values where OpenManus-RL's are others. It has no
// environment; the model that its files name is no one's choice.
var verlDefaults = map[string]string{
	"data.env_name": none, "data.env_server_base": none, "data.env_ports": none, modelAt + "path": none,
	actorAt + "entropy_coeff": "0", rolloutAt + "val_kwargs.temperature": "0",
}

// whose says which trainer a command line is for, and how that is known.
func (im *importer) whose(program string, own ownKeys) (of, why string) {
	of, why = im.mostly(program, own)
	if mixed := own.mixed(im.supervised); mixed != "" {
		why += "; but " + mixed
	}
	return of, why
}

// mostly is whose the command line is, whatever else is in it.
func (im *importer) mostly(program string, own ownKeys) (of, why string) {
	switch {
	case im.supervised && program != "":
		return sft, "its program is " + clip(program)
	case im.supervised:
		return sft, own.sft[0] + " is its own"
	}
	verls := slices.Clone(ownVerl)
	for _, entry := range im.table {
		if entry.source == verl {
			verls = append(verls, entry.key)
		}
	}
	for _, kind := range []struct {
		of  string
		own func(key string) bool
	}{
		{omrl, among(ownOMRL)},
		{omrl2, among(ownOMRL2)},
		{verl, among(verls)},
	} {
		i := slices.IndexFunc(im.order, func(key string) bool { return !strings.HasPrefix(key, "hydra.") && kind.own(key) })
		if i >= 0 {
			return kind.of, im.order[i] + " is its own"
		}
	}
	if strings.HasPrefix(program, "recipe") {
		return verl, "its program is " + clip(program)
	}
	return omrl, "no key of it is of one trainer alone"
}

// among reports whether a key is one of those that keys stand for.
func among(keys []string) func(key string) bool {
	return func(key string) bool {
		for _, entry := range keys {
			for _, k := range spread(entry) {
				if all, many := strings.CutSuffix(k, "*"); k == key || many && strings.HasPrefix(key, all) {
					return true
				}
			}
		}
		return false
	}
}

// usual is the value of a key that the command line does not give.
func (im *importer) usual(entry row, key string) string {
	if def, ok := verlDefaults[key]; ok && im.of != omrl {
		return def
	}
	return entry.def
}

// noteOf is what is said of a key. That nobody reads it is only so in
// OpenManus-RL.
func (im *importer) noteOf(entry row) string {
	if im.of == omrl {
		return entry.note
	}
	return strings.TrimSuffix(strings.TrimSuffix(entry.note, readNowhere), "; ")
}
