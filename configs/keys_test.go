package configs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// specKeys are the keys of the specification's configuration file, and keys of
// earlier specifications.
const specKeys = `
model: path tokenizer_path master_dtype compute_dtype gradient_checkpointing remove_padding param_dtype override
data: train_files val_files train_limit val_limit prompt_key max_prompt_tokens truncation train_batch_size val_batch_size shuffle seed
	keep_raw_chat filter_overlong dir
env: name server_base ports num_servers timeout_s retries base_port data_len seed servers tasks val_tasks weight max_turns format parser action_format
	instruction_file launch checkout webshop tools
agent: format max_turns max_obs_tokens history_length max_workers memory_file strategy max_start_tokens
agent.summary: base_url model concurrency
rollout: engine group_size temperature top_p top_k max_new_tokens max_context_tokens max_sequences kv_cache_fraction record_log_probs
	deterministic max_logprob_gap dtype ignore_eos max_batch_tokens log_prob_micro_batch_size do_sample
rollout.val: temperature group_size
reward: signal allocation score_fn format_score invalid_action_penalty model_path model_micro_batch_size model_max_tokens
reward.components: weight
algo: adv_estimator norm_by_std gamma lam use_kl_in_reward kl_penalty kl_ctrl kl_coef kl_target kl_horizon filter_groups max_gen_batches
	gigpo_step_weight gigpo_norm
algo.rollout_correction: rollout_is rollout_is_threshold rollout_is_batch_normalize rollout_rs rollout_rs_threshold bypass_mode loss_type
actor: mini_batch_size micro_batch_size dynamic_batch max_tokens_per_micro_batch ppo_epochs shuffle policy_loss loss_agg clip_ratio_low
	clip_ratio_high clip_ratio_c entropy_coef use_kl_loss kl_loss_coef kl_loss_type grad_clip mask_observations offload_params
	offload_optimizer compute_dtype reduce_dtype
actor.optim: lr betas eps weight_decay schedule warmup_ratio warmup_steps min_lr_ratio
critic: path clip_range_value micro_batch_size grad_clip param_dtype gradient_checkpointing offload_params offload_optimizer
	mini_batch_size forward_micro_batch_size dynamic_batch max_tokens_per_micro_batch epochs shuffle
critic.optim: lr warmup_ratio
ref: path micro_batch_size offload_params dynamic_batch max_tokens_per_micro_batch
sft: train_batch_size micro_batch_size prompt_key response_key max_length truncation lora_rank lora_alpha target_modules
trainer: project experiment epochs total_steps critic_warmup save_every test_every val_before_train val_only keep_checkpoints resume
	output_dir seed experiment_suffix rollout_dump_dir
log: backends level val_generations
`

func TestSpecificationKeysAreKnown(t *testing.T) {
	sec := ""
	for word := range strings.FieldsSeq(specKeys) {
		if s, ok := strings.CutSuffix(word, ":"); ok {
			sec = s
			continue
		}
		if e, ok := schema.known(sec + "." + word); !ok {
			t.Errorf("the table of keys lacks %s.%s", sec, word)
		} else if e.doc == "" {
			t.Errorf("%s.%s has no documentation", sec, word)
		}
	}
}

// leaves lists every field of the struct type t by its key.
func leaves(t reflect.Type, at string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := join(at, f.Tag.Get("toml"))
		switch {
		case f.Tag.Get("toml") == "-": // a field that is no key
		case f.Type.Kind() == reflect.Struct:
			out = append(out, leaves(f.Type, name)...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			out = append(out, leaves(f.Type.Elem(), name)...)
		default:
			out = append(out, name)
		}
	}
	return out
}

func TestTableAndStructsAgree(t *testing.T) {
	fields := map[string]bool{}
	for _, name := range leaves(reflect.TypeFor[Config](), "") {
		fields[name] = true
		if e, ok := schema.byName[name]; !ok || e.status != Ready || e.doc == "" {
			t.Errorf("field %s is not documented in the table of keys", name)
		}
	}
	seen := map[string]bool{}
	for _, e := range schema.table {
		if seen[e.name] {
			t.Errorf("%s is in the table twice", e.name)
		}
		seen[e.name] = true
		if (e.status == Ready) != (fields[e.name] || e.param) {
			t.Errorf("%s has status %s, and has a field: %v", e.name, e.status, fields[e.name])
		}
	}
}

func TestSectionsKeepTogether(t *testing.T) {
	done, cur := map[string]bool{}, ""
	for _, e := range schema.table {
		sec := sectionOf(e.name)
		if sec == cur {
			continue
		}
		if done[sec] {
			t.Errorf("section %s is not contiguous: it starts again at %s", sec, e.name)
		}
		done[sec], cur = true, sec
	}
}

// TestStatuses loads every key that is not Ready and checks the message.
func TestStatuses(t *testing.T) {
	for _, k := range schema.Keys() {
		if k.Status == Ready {
			continue
		}
		leaf := k.Name[strings.LastIndexByte(k.Name, '.')+1:]
		head := "[" + sectionOf(k.Name) + "]"
		if strings.HasPrefix(k.Name, "env.") {
			head = "[[env]]"
		}
		value := "\"some other value\""
		if k.Status == Fixed {
			value = k.Default
		}
		_, err := schema.Load("f", fmt.Appendf(nil, "%s\n%s = %s\n", head, leaf, value), nil)
		about := ""
		for _, f := range err.(Faults) {
			if generic(f.Key) == k.Name {
				about = f.Msg
			}
		}
		switch k.Status {
		case Fixed:
			if about != "" {
				t.Errorf("%s = %s is a fault: %s", k.Name, value, about)
			}
		case Later:
			if !strings.HasPrefix(about, "not implemented yet") {
				t.Errorf("%s: got %q, want not implemented yet", k.Name, about)
			}
		case Moved:
			if !strings.HasPrefix(about, "this key has another place") {
				t.Errorf("%s: got %q, want this key has another place", k.Name, about)
			}
		}
	}
}
