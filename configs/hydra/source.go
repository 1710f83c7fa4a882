package hydra

import (
	"fmt"
	"slices"
	"strings"
)

// Keys that only one version of the trainers has identify the source of a command
// line. The source determines the defaults of all keys, and also which keys are
// accepted but never read.
var (
	// ownOMRL has the keys of OpenManus-RL, May 2025 (spec 1.3).
	ownOMRL = []string{
		"data.{env_name,env_server_base,env_ports,env_data_len,train_data_num,val_data_num,max_start_length,max_obs_length}",
		"data.{shuffle_train_dataloader,react_format,rollout_strategy,max_workers}", rolloutAt + "{n_agent,max_workers}", actorAt + "state_masking",
		"{max_turns,do_search,retriever.*,format_score}", "algorithm.{no_think_rl,reward_score_fn,reward_allocation,state_masking.*,reward_components.*}",
	}
	// ownOMRL2 has the keys of September 2025 (spec 1.5) that verl lacks.
	ownOMRL2 = []string{
		"env.*", "{memory_file,use_staged_format}", "algorithm.gigpo.*", actorAt + "{use_invalid_action_penalty,invalid_action_penalty_coef}",
	}
	// ownVerl has the keys that identify verl but have another source in the table (spec 1.6).
	ownVerl = []string{
		"data.{truncation,filter_overlong_prompts}", rolloutAt + "val_kwargs.*", "algorithm.filter_groups.*",
		actorAt + "ppo_micro_batch_size_per_gpu", "critic.{ppo_micro_batch_size_per_gpu,forward_micro_batch_size_per_gpu}",
		"actor_rollout_ref.{ref,rollout}.log_prob_micro_batch_size_per_gpu", "reward_model.{micro_batch_size_per_gpu,launch_reward_fn_async}",
	}
)

// verlDefaults has the defaults of verl that differ from OpenManus-RL's. verl has
// no environment, and the model in its configuration files is a placeholder.
var verlDefaults = map[string]string{
	"data.env_name": none, "data.env_server_base": none, "data.env_ports": none, modelAt + "path": none,
	actorAt + "entropy_coeff": "0", rolloutAt + "val_kwargs.temperature": "0",
}

// trainer is one of the two programs whose command lines are imported.
type trainer struct {
	name  string
	table []row
}

var (
	ppoTrainer = trainer{"the reinforcement learning trainer (main_ppo)", ppoKeys}
	sftTrainer = trainer{"the SFT trainer (fsdp_sft_trainer)", sftKeys}
)

// has reports whether the trainer has a key.
func (t trainer) has(key string) bool {
	return slices.ContainsFunc(t.table, func(entry row) bool { return covers(entry.key, key) })
}

// Known reports whether a trainer has a key.
func Known(key string) bool {
	return slices.ContainsFunc(slices.Concat(ppoKeys, sftKeys), func(entry row) bool { return slices.Contains(spread(entry.key), key) })
}

// covers reports whether pattern stands for key.
func covers(pattern, key string) bool {
	return slices.ContainsFunc(spread(pattern), func(k string) bool {
		all, many := strings.CutSuffix(k, "*")
		return k == key || many && strings.HasPrefix(key, all)
	})
}

// identify finds the trainer and the source of a command line, and returns the
// reason. Without a program, it chooses the trainer with more exclusive keys on
// the line.
func (im *importer) identify(program string) (why string) {
	var onlyPPO, onlySFT []string
	for _, key := range im.order {
		switch ppo, sft := ppoTrainer.has(key), sftTrainer.has(key); {
		case ppo && !sft:
			onlyPPO = append(onlyPPO, key)
		case sft && !ppo:
			onlySFT = append(onlySFT, key)
		}
	}
	foreign := onlySFT
	switch {
	case strings.Contains(program, "sft"):
		im.of, why, foreign = sft, "the program is "+clip(program), onlyPPO
	case program == "" && len(onlySFT) > len(onlyPPO):
		im.of, why, foreign = sft, "only it has "+onlySFT[0], onlyPPO
	default:
		im.of, why = im.version(program)
	}
	im.trainer, im.other = ppoTrainer, sftTrainer
	if im.of == sft {
		im.trainer, im.other = sftTrainer, ppoTrainer
	}
	if n := len(foreign); n > 0 {
		why += "; but only " + im.other.name + " has " + foreign[0]
		if n > 1 {
			why += fmt.Sprintf(" and %d more", n-1)
		}
	}
	return why
}

// version returns the source of a command line of the reinforcement learning
// trainer, and the reason.
func (im *importer) version(program string) (of, why string) {
	verls := slices.Clone(ownVerl)
	for _, entry := range ppoKeys {
		if entry.source == verl {
			verls = append(verls, entry.key)
		}
	}
	for _, kind := range []struct {
		of  string
		own []string
	}{{omrl, ownOMRL}, {omrl2, ownOMRL2}, {verl, verls}} {
		i := slices.IndexFunc(im.order, func(key string) bool {
			return !strings.HasPrefix(key, "hydra.") && slices.ContainsFunc(kind.own, func(own string) bool { return covers(own, key) })
		})
		if i >= 0 {
			return kind.of, "only it has " + im.order[i]
		}
	}
	if strings.HasPrefix(program, "recipe") {
		return verl, "the program is " + clip(program)
	}
	if strings.HasSuffix(program, "main_ppo") && im.ofRows() {
		return verl, "it names data files but no environment, which every script of OpenManus-RL names"
	}
	return omrl, "no key belongs to another trainer alone"
}

// usual returns the default of a key in the command line's trainer.
func (im *importer) usual(entry row, key string) string {
	if _, named := im.given["env.env_name"]; named && key == "data.env_name" {
		return none
	}
	if def, ok := verlDefaults[key]; ok && im.of != omrl {
		return def
	}
	return entry.def
}

// noteOf returns the note of a row. The note readNowhere applies only to OpenManus-RL.
func (im *importer) noteOf(entry row) string {
	if im.of == omrl {
		return entry.note
	}
	return strings.TrimSuffix(strings.TrimSuffix(entry.note, readNowhere), "; ")
}
