package track

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

func TestDocument(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != document() {
		t.Errorf("%s is out of date: run go test ./algo/track -update", path)
	}
}

// document returns docs/metrics.md: Table sorted by name.
func document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

A run appends one line per step to ` + "`metrics.jsonl`" + ` in its folder: a JSON object with ` + "`step`, `phase`, `time`" + ` and the metrics below.
` + "`time`" + ` is the time of writing in Unix seconds. ` + "`step`" + ` counts within ` + "`phase`" + `, so plot each phase over its own ` + "`step`" + `:

| phase | steps |
| --- | --- |
| ` + "`read`" + ` | optimiser steps of a fresh model's reading; about 50 lines, each with means over the steps since the previous line |
| ` + "`sft`" + ` | optimiser steps of the warm start |
| ` + "`train`" + ` | training steps, which number the checkpoints; step 0 is a validation before the first step |

Lines of a warm start and of a reading also have their step as the metric ` + "`sft/step`" + ` or ` + "`read/step`" + `, because older versions
wrote these lines with ` + "`step`" + ` 0 and without phase and time. NaN and infinity are written as null, and ` + "`nonfinite`" + ` is the number of such values in the
line. Metrics that do not apply to a step are omitted.

The metrics have the names of verl and OpenManus-RL, so that dashboards work unchanged; the exceptions are listed at the end of
this page. Means over tokens use the loss mask, which is 1 exactly on sampled tokens, instead of a window over the
padded row. In a name, ` + "`{a,b}`" + ` means each of the alternatives and ` + "`*`" + ` any text without a slash.

This page is generated from the table in ` + "`algo/track`" + ` (` + "`go test ./algo/track -update`" + `). A test trains and checks that the
written metrics and the table agree.

| metric | meaning | in |
| --- | --- | --- |
`)
	table := slices.Clone(Table)
	slices.SortFunc(table, func(a, b Definition) int { return cmp.Compare(a.Names, b.Names) })
	for _, d := range table {
		when := d.When
		if when == "" {
			when = "training steps"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Names, strings.ReplaceAll(d.Meaning, "|", "\\|"), when)
	}
	b.WriteString("\n## Renamed and missing metrics\n\n| OpenManus-RL, verl | here |\n| --- | --- |\n")
	for _, r := range Renamed {
		here := r.Why
		if r.Here != "" {
			here = "`" + r.Here + "`"
			if r.Why != "" {
				here += ": " + r.Why
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Theirs, here)
	}
	return b.String()
}

// TestRenamed checks that every counterpart in Renamed is a metric of this package.
func TestRenamed(t *testing.T) {
	for _, r := range Renamed {
		if r.Here == "" && r.Why == "" {
			t.Errorf("%s has neither a counterpart nor a reason", r.Theirs)
		}
		for _, name := range Expand(r.Here) {
			if r.Here != "" && !defined(name) {
				t.Errorf("Renamed lists %s as %s, which is not in Table", r.Theirs, name)
			}
		}
		for _, name := range Expand(r.Theirs) {
			if defined(name) {
				t.Errorf("%s is in Renamed, but also in Table", name)
			}
		}
	}
}

// verlNames lists the metrics of verl 0.9.1's trainers (metric_utils.py, ray_trainer.py, v1,
// losses.py, engine_workers.py, rollout_corr_helper.py and debug/metrics.py).
const verlNames = `
actor/{entropy,entropy_loss,grad_norm,kl_coef,kl_loss,lr,pg_clipfrac,pg_clipfrac_lower,pg_loss,ppo_kl,reward_kl_penalty,reward_kl_penalty_coeff}
critic/{advantages,returns,rewards,score,values}/{max,mean,min}
critic/{grad_norm,lr,vf_clipfrac,vf_explained_var,vf_loss,vpred_mean}
global_seqlen/{max,min,minmax_diff}
{num_turns,tool_call_counts,training/num_turns}/{max,mean,min}
perf/{cpu_memory_used_gb,max_memory_allocated_gb,max_memory_reserved_gb,throughput,time_per_step,total_num_tokens}
perf/mfu/{actor,actor_infer,critic}
{prompt_length,response_length,response_length_non_aborted}/{clip_ratio,max,mean,min}
response/aborted_ratio
rollout/{spec_accept_length,spec_accept_rate}
rollout_corr/{kl,k3_kl,chi2_token,chi2_seq,training_ppl,rollout_ppl,ppl_ratio,log_ppl_diff,log_ppl_abs_diff,log_ppl_diff_max,log_ppl_diff_min}
rollout_corr/rollout_is_{mean,std,max,min,eff_sample_size,ratio_fraction_high,ratio_fraction_low,batch_norm_factor,oob_ratio}
rollout_corr/rollout_is_seq_{mean,std,max,min,max_deviation,fraction_high,fraction_low}
rollout_corr/rollout_rs_{masked_fraction,seq_masked_fraction}
timing_per_token_ms/{gen,ref,values,adv,update_critic,update_actor}
timing_s/{adv,gen,gen_max,old_log_prob,ref,reward,save_checkpoint,step,testing,update_actor,update_critic,update_weights,values}
timing_s/{dump_rollout_generations,switch_to_rollout,switch_to_trainer,switch_wait,start_profile,stop_profile}
timing_s/agent_loop/tool_calls/{max,mean,min}
train/{global_tokens,grad_norm,loss,lr,mfu}
training/{epoch,global_step,rollout_actor_probs_pearson_corr}
training/rollout_probs_diff_{max,mean,std,valid}
training/filter_groups/{discarded_surplus_samples,evicted_samples,filtered_reward_counts}
training/off_policy/evicted_samples
training/off_policy/{trajectory_spans,trajectory_staleness,trajectory_staleness_worst}/{max,mean,min}
val/loss
val-aux/num_turns/{max,mean,min}
val-core/maze/reward/mean@1
val-aux/maze/reward/best@4/mean
`

// TestVerlNames checks that every metric of verl exists here under the same name, or is listed in docs/metrics.md as
// renamed or missing.
func TestVerlNames(t *testing.T) {
	for names := range strings.FieldsSeq(verlNames) {
		for _, name := range Expand(names) {
			here := defined(name)
			for _, r := range Renamed {
				for _, pattern := range Expand(r.Theirs) {
					here = here || match(pattern, name)
				}
			}
			if !here {
				t.Errorf("%s is neither in Table nor in Renamed", name)
			}
		}
	}
}
