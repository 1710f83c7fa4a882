package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/torch"
)

// methods returns the allowed values of the keys that select a method.
func methods() map[string][]string {
	var kls []string
	for _, name := range kl.Estimators.Names() {
		kls = append(kls, name, name+"+")
	}
	return map[string][]string{
		"algo.name":                          {"policy_gradient", "agentevol"},
		"algo.adv_estimator":                 advantage.Estimators.Names(),
		"actor.policy_loss":                  without(loss.Policies.Names(), loss.Bypass), // bypass_mode selects loss.Bypass
		"actor.loss_agg":                     loss.Aggregations.Names(),
		"actor.kl_loss_type":                 append(kls, "kl", "kl+", "mse", "mse+", "low_var_kl", "low_var_kl+", kl.Full),
		"algo.kl_penalty":                    append(kl.Estimators.Names(), "kl", "mse", "low_var_kl"),
		"algo.kl_ctrl":                       {kl.Fixed, kl.Adaptive},
		"algo.gigpo_norm":                    {advantage.MeanNorm, advantage.MeanStdNorm},
		"algo.pf_ppo":                        append(advantage.Reweightings.Names(), ""),
		"algo.rollout_correction.rollout_is": {"", correction.Token, correction.Sequence},
		"algo.rollout_correction.rollout_rs": correction.RuleNames(),
		"algo.rollout_correction.loss_type":  {loss.PPOClip, loss.Reinforce},
		"algo.filter_metric":                 groupMetrics(),
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

func groupMetrics() []string {
	var names []string
	for name := range algo.GroupMetrics {
		names = append(names, name)
	}
	return names
}

// TestMethodsReachTheTrainer checks that the options of the trainer have each
// configured method.
func TestMethodsReachTheTrainer(t *testing.T) {
	ts := newTestHost(t)
	options := func(sets ...string) (algo.Options, error) {
		cfg, err := Schema.Load("m", []byte(tinyRun), sets)
		if err != nil {
			t.Fatal(err)
		}
		return trainerOptions(&ts.Host, cfg, torch.Float32, 4)
	}
	for key, names := range methods() {
		for _, name := range names {
			sets := []string{fmt.Sprintf("%s=%q", key, name)}
			var got func(o algo.Options) string
			switch key {
			case "algo.name":
				got = func(o algo.Options) string {
					if _, ok := o.Method.(algo.Evol); ok {
						return "agentevol"
					}
					return "policy_gradient"
				}
			case "algo.adv_estimator":
				if name == "gae" {
					sets = append(sets, "critic.mini_batch_size=0") // 0: one mini-batch of all four episodes
				}
				got = func(o algo.Options) string {
					if e, _ := advantage.Estimators.Lookup(o.Estimator); e.Needs.Values != (o.Critic != nil) {
						t.Errorf("estimator %s: got critic options %+v, want options only if the estimator needs values", o.Estimator, o.Critic)
					}
					return o.Estimator
				}
			case "actor.policy_loss":
				if p, _ := loss.Policies.Lookup(name); p.Agg != "" {
					sets = append(sets, "actor.loss_agg="+p.Agg)
				}
				if name == "dro" {
					sets = append(sets, "actor.dro_beta=0.1")
				}
				got = func(o algo.Options) string {
					if err := loss.Check(o.Policy.Loss, o.Policy.Agg); err != nil {
						t.Error(err)
					}
					return o.Policy.Loss
				}
			case "actor.loss_agg":
				got = func(o algo.Options) string { return o.Policy.Agg }
			case "actor.kl_loss_type":
				sets = append(sets, "actor.use_kl_loss=true")
				got = func(o algo.Options) string {
					if o.Policy.KLCoef == 0 {
						t.Error("the KL loss is off")
					}
					return o.Policy.KLType
				}
			case "algo.kl_penalty":
				sets = append(sets, "algo.use_kl_in_reward=true")
				got = func(o algo.Options) string { return o.KLReward.Type }
			case "algo.kl_ctrl":
				sets = append(sets, "algo.use_kl_in_reward=true")
				got = func(o algo.Options) string { return o.KLReward.Controller.Kind }
			case "algo.gigpo_norm":
				sets = append(sets, "algo.adv_estimator=gigpo")
				got = func(o algo.Options) string { return o.EstimatorOpts.Params["gigpo_norm"].(string) }
			case "algo.pf_ppo":
				got = func(o algo.Options) string { return o.PFPPO }
			case "algo.rollout_correction.rollout_is":
				got = func(o algo.Options) string {
					if o.Correction.Weights == nil {
						return ""
					}
					return o.Correction.Weights.Level
				}
			case "algo.rollout_correction.rollout_rs":
				sets = []string{fmt.Sprintf("%s=[%q]", key, name), `algo.rollout_correction.rollout_rs_threshold=["2"]`}
				got = func(o algo.Options) string { return fmt.Sprint(len(o.Correction.Rules)) }
				name = "1"
			case "algo.rollout_correction.loss_type":
				sets = append(sets, "algo.rollout_correction.bypass_mode=true")
				got = func(o algo.Options) string {
					if o.Policy.Loss != loss.Bypass {
						t.Errorf("the loss is %s", o.Policy.Loss)
					}
					return o.Policy.LossOptions.BypassLoss
				}
			case "algo.filter_metric":
				got = func(o algo.Options) string { return o.FilterMetric }
			}
			o, err := options(sets...)
			if err != nil {
				t.Errorf("%q: %v", sets, err)
			} else if g := got(o); g != name {
				t.Errorf("with %q: the trainer has %q, want %q", sets, g, name)
			}
		}
	}
	if _, err := options(`algo.rollout_correction.rollout_rs=["token_k1"]`, `algo.rollout_correction.rollout_rs_threshold=["0.5"]`); err == nil {
		t.Error("the threshold 0.5, which is below its inverse, was accepted")
	}
}

// TestSimilarityReachesTheTrainer checks that the options of the trainer have the
// similarity threshold of gigpo.
func TestSimilarityReachesTheTrainer(t *testing.T) {
	ts := newTestHost(t)
	for _, want := range []float64{1, .9} {
		cfg, err := Schema.Load("m", []byte(tinyRun), []string{"algo.adv_estimator=gigpo", fmt.Sprintf("algo.gigpo_similarity_thresh=%g", want)})
		if err != nil {
			t.Fatal(err)
		}
		o, err := trainerOptions(&ts.Host, cfg, torch.Float32, 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.EstimatorOpts.Params["gigpo_similarity_thresh"]; got != want {
			t.Errorf("the similarity threshold is %g, but the trainer has %g", want, got)
		}
	}
}

// TestBoundsOfWeightsReachTheTrainer checks that the two bounds of IcePop are in the
// options of the correction, or with bypass_mode in the options of the loss.
func TestBoundsOfWeightsReachTheTrainer(t *testing.T) {
	ts := newTestHost(t)
	const at = "algo.rollout_correction."
	for _, bypass := range []bool{false, true} {
		sets := []string{at + "rollout_is=token", at + "rollout_is_threshold=5.0", at + "rollout_is_threshold_lower=0.5"}
		if bypass {
			sets = append(sets, at+"bypass_mode=true", at+"loss_type=reinforce")
		}
		cfg, err := Schema.Load("m", []byte(tinyRun), sets)
		if err != nil {
			t.Fatal(err)
		}
		o, err := trainerOptions(&ts.Host, cfg, torch.Float32, 4)
		if err != nil {
			t.Fatal(err)
		}
		if l := o.Policy.LossOptions; bypass && (l.BypassWeightsFloor != .5 || l.BypassWeightsCap != 5) {
			t.Errorf("with bypass_mode the loss has the bounds %g and %g, want 0.5 and 5", l.BypassWeightsFloor, l.BypassWeightsCap)
		}
		if w := o.Correction.Weights; !bypass && (w == nil || *w != (correction.Weights{Level: correction.Token, Cap: 5, Floor: .5})) {
			t.Errorf("the correction has %+v", w)
		}
	}
}

// TestPassesReachTheTrainer checks that the options of the trainer have the number and
// the order of passes over a step's episodes.
func TestPassesReachTheTrainer(t *testing.T) {
	ts := newTestHost(t)
	cfg, err := Schema.Load("m", []byte(tinyRun), []string{
		"actor.ppo_epochs=3", "actor.shuffle=true", "actor.mini_batch_size=2", "algo.adv_estimator=gae",
		"critic.epochs=2", "critic.shuffle=true", "critic.mini_batch_size=3", "critic.micro_batch_size=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := trainerOptions(&ts.Host, cfg, torch.Float32, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Policy.Passes; got != (learner.Passes{Epochs: 3, Shuffle: true}) {
		t.Errorf("got passes %+v of the actor, want 3 shuffled epochs", got)
	}
	if got := o.Critic.Passes; got != (learner.Passes{Epochs: 2, Shuffle: true}) {
		t.Errorf("got passes %+v of the critic, want 2 shuffled epochs", got)
	}
}
