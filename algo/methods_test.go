package algo

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/reward"
)

// rewardByBytes computes the reward of every action from its bytes, so that groups of a tiny model have a spread: the maze
// gives all failed episodes the same reward.
func rewardByBytes(inner http.Handler) http.Handler {
	return withRewards(inner, func(action []byte) float64 {
		sum := 0
		for _, b := range action {
			sum += int(b)
		}
		return float64(sum%7)/7 - .5
	})
}

// withRewards replaces the reward of every step by worth(action).
func withRewards(inner http.Handler, worth func(action []byte) float64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/step") {
			inner.ServeHTTP(w, req)
			return
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		var said struct{ Action string }
		_ = json.Unmarshal(body.Bytes(), &said)
		req.Body = readCloser{&body}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, req)
		var reply map[string]any
		if json.Unmarshal(rec.Body.Bytes(), &reply) == nil {
			if _, ok := reply["reward"]; ok {
				reply["reward"] = worth([]byte(said.Action))
				text, _ := json.Marshal(reply)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(rec.Code)
				_, _ = w.Write(text)
				return
			}
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

// quick returns a run of one step without warm start and validations.
func quick(t *testing.T, change func(o *Options)) *rig {
	t.Helper()
	r := newRig(t)
	r.maze = rewardByBytes(r.maze)
	r.steps = 1
	r.options = func(o *Options) {
		o.WarmStart, o.ValBeforeTrain, o.TestEvery, o.SaveEvery = nil, false, 0, 0
		o.DropZeroSpread, o.FilterMetric = true, "seq_final_reward"
		o.EstimatorOpts = advantage.Options{Params: registry.Values{"norm_by_std": true, "gamma": .9, "lam": .9, "gigpo_step_weight": 1.0, "gigpo_norm": advantage.MeanStdNorm}}
		o.Policy.AggScale, o.Policy.LossOptions.Params["dro_beta"] = 100, .1
		if change != nil {
			change(o)
		}
	}
	return r
}

// lines returns the metrics of training by step.
func (r *rig) lines(t *testing.T) map[int]track.Metrics {
	t.Helper()
	out := map[int]track.Metrics{}
	must(t, track.Read((&rundir.Folder{Dir: r.dir}).Metrics(), func(l track.Line) error {
		if l.Phase == track.PhaseTrain {
			out[l.Step] = maps.Clone(l.Metrics)
		}
		return nil
	}))
	return out
}

// TestEveryMethodTrains trains one step over HTTP with every estimator, loss, aggregation, KL and correction, and
// checks for finite metrics and a gradient.
func TestEveryMethodTrains(t *testing.T) {
	type method struct {
		name   string
		change func(o *Options)
		shows  []string // metrics that must be present
	}
	var methods []method
	add := func(name string, change func(o *Options), shows ...string) {
		methods = append(methods, method{name, change, shows})
	}
	// Estimators and losses are independent, so run i trains the i-th estimator with the i-th
	// loss. KLs and aggregations are paired in the same way, as are controllers and reweightings.
	losses := loss.Policies.Names()
	estimators := advantage.Estimators.Names()
	for i := range max(len(losses), len(estimators)) {
		estimator, policy := estimators[i%len(estimators)], losses[i%len(losses)]
		var shows []string
		if e, _ := advantage.Estimators.Lookup(estimator); e.Needs.Values {
			shows = []string{
				"critic/vf_loss", "critic/vf_clipfrac", "critic/vpred_mean", "critic/grad_norm", "critic/lr", "critic/values/mean",
				"critic/vf_explained_var",
			}
		}
		add(estimator+", "+policy, func(o *Options) {
			if o.Estimator = estimator; shows != nil {
				o.Critic = criticOptions()
			}
			o.Policy.Loss, o.Policy.MiniBatch = policy, 3
			if p, _ := loss.Policies.Lookup(policy); p.Agg != "" {
				o.Policy.Agg = p.Agg
			}
		}, shows...)
	}
	aggregations := loss.Aggregations.Names()
	for i, name := range append(kl.Estimators.Names(), "k3+", kl.Full) {
		agg := aggregations[i%len(aggregations)]
		add("KL loss "+name+", "+agg, func(o *Options) {
			o.Policy.KLCoef, o.Policy.KLType, o.Policy.Agg = .1, name, agg
		}, "actor/kl_loss", "actor/kl_coef")
	}
	for i, name := range advantage.Reweightings.Names() {
		kind := []string{kl.Fixed, kl.Adaptive}[i%2]
		add("PF-PPO by "+name+", KL in the reward, "+kind, func(o *Options) {
			o.PFPPO = name
			o.KLReward = &KLReward{Type: "k3", Controller: kl.Controller{Kind: kind, Coef: .1, Target: .1, Horizon: 60}}
		}, "critic/kl", "critic/kl_coeff")
	}
	for _, level := range []string{correction.Token, correction.Sequence} {
		add("weights by "+level, func(o *Options) {
			o.Correction.Weights = &correction.Weights{Level: level, Cap: 2, Normalize: true}
		}, "rollout_corr/kl", "rollout_corr/rollout_is_mean")
	}
	add("rejection", func(o *Options) {
		rule, err := correction.ParseRule("token_k1", "1.5")
		must(t, err)
		o.Correction.Rules = []correction.Rule{rule}
	}, "rollout_corr/rollout_rs_masked_fraction")
	add("bypass with reinforce", func(o *Options) {
		o.Policy.Loss = loss.Bypass
		o.Policy.LossOptions.BypassLoss, o.Policy.LossOptions.BypassWeights, o.Policy.LossOptions.BypassWeightsCap = loss.Reinforce, loss.BySequence, 2
	}, "rollout_corr/kl", "rollout_corr/training_ppl", "rollout_corr/chi2_seq")
	for _, c := range methods {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := quick(t, c.change)
			must(t, r.fit(t, t.Context(), t.Context()))
			m := r.lines(t)[1]
			for name, x := range m {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s is %v, want a finite number", name, x)
				}
			}
			for _, name := range append(c.shows, "actor/pg_loss", "actor/ppo_kl", "actor/pg_clipfrac", "critic/advantages/mean") {
				if _, ok := m[name]; !ok {
					t.Errorf("%s is missing in %v", name, slices.Sorted(maps.Keys(m)))
				}
			}
			if !(m["actor/grad_norm"] > 0) {
				t.Errorf("the gradient norm is %v, want a positive number", m["actor/grad_norm"])
			}
			if gap := m["rollout/logprob_gap_mean"]; !(gap < 1e-3) {
				t.Errorf("the log-probs of sampling and training differ by %v, want less than 1e-3", gap)
			}
		})
	}
}

// TestKLCoefficientIsResumed checks that the adaptive coefficient changes with every step
// and is stored in the checkpoint; a killed and resumed run continues with this coefficient.
func TestKLCoefficientIsResumed(t *testing.T) {
	run := func(killAfter int) (*rig, map[int]track.Metrics) {
		r := quick(t, func(o *Options) {
			o.KLReward = &KLReward{Type: "k3", Controller: kl.Controller{Kind: kl.Adaptive, Coef: .1, Target: 1e-4, Horizon: 60}}
			o.SaveEvery = 1
		})
		r.steps = 3
		if killAfter > 0 {
			r.killAfter(t, killAfter)
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		return r, r.lines(t)
	}
	_, undisturbed := run(0)
	_, resumed := run(1)
	last := .1
	for step := 1; step <= 3; step++ {
		got, want := resumed[step]["critic/kl_coeff"], undisturbed[step]["critic/kl_coeff"]
		if got != want || resumed[step]["actor/pg_loss"] != undisturbed[step]["actor/pg_loss"] {
			t.Errorf("step %d: coefficient %v and loss %v, want %v and %v as in an undisturbed run", step, got, resumed[step]["actor/pg_loss"], want, undisturbed[step]["actor/pg_loss"])
		}
		if step > 1 && !(want > last) {
			t.Errorf("step %d: the coefficient is %v after %v, want a larger one", step, want, last)
		}
		last = want
	}
}

// TestFilterGroups checks that dynamic sampling plays batches until enough groups have a spread,
// trains on no more groups than configured, and on none if no group has a spread. A repeated task
// gets new samples.
func TestFilterGroups(t *testing.T) {
	for _, c := range []struct {
		name  string
		learn bool
	}{
		{"groups with a spread", true},
		{"groups without a spread", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := quick(t, func(o *Options) { o.FilterGroups, o.MaxGenBatches = true, 3 })
			if !c.learn {
				r.maze = newRig(t).maze // the maze gives all failed episodes the same reward
			}
			must(t, r.fit(t, t.Context(), t.Context()))
			m := r.lines(t)[1]
			if c.learn != (m["actor/updated_rows"] > 0) {
				t.Errorf("%v rows were trained on, want some only if groups have a spread", m["actor/updated_rows"])
			}
			if !c.learn && m["group/gen_batches"] != 3 {
				t.Errorf("%v batches were played, want all 3", m["group/gen_batches"])
			}
			if m["actor/updated_rows"] > 6 {
				t.Errorf("%v rows were trained on, want at most 6", m["actor/updated_rows"])
			}
			episodes := dumped(t, filepath.Join(r.dir, "rollouts", "step_1.jsonl"))
			if want := int(m["group/gen_batches"]) * 6; len(episodes) != want {
				t.Errorf("%d episodes are dumped, want %d", len(episodes), want)
			}
			seeds := map[uint64]bool{} // 3 batches of 2 tasks repeat the 3 tasks
			for _, e := range episodes {
				if seeds[e.Seed] {
					t.Errorf("two episodes have the seed %d", e.Seed)
				}
				seeds[e.Seed] = true
			}
		})
	}
}

// TestFilterGroupsMeasuresEveryBatch checks that the episode metrics of a step cover all its
// batches, not only the last one.
func TestFilterGroupsMeasuresEveryBatch(t *testing.T) {
	r := quick(t, func(o *Options) {
		o.FilterGroups, o.MaxGenBatches = true, 3
		o.Scorer = &reward.Composer{Components: []reward.Component{{Name: "batch", Weight: 1, Scorer: &batchNumbers{}}}}
	})
	must(t, r.fit(t, t.Context(), t.Context()))
	m := r.lines(t)[1]
	if m["group/gen_batches"] != 3 || m["reward/batch/mean"] != 2 {
		t.Errorf("%v batches and the mean reward %v, want 3 batches and 2, the mean of the rewards 1, 2 and 3", m["group/gen_batches"], m["reward/batch/mean"])
	}
	turns, valid := 0.0, 0.0
	for _, e := range dumped(t, filepath.Join(r.dir, "rollouts", "step_1.jsonl")) {
		good, judged := reward.ValidActions(e.Turns)
		turns += float64(judged)
		valid += float64(good)
	}
	if got := m["episode/valid_action_ratio"]; got != valid/turns {
		t.Errorf("the share of valid actions is %v, want %v as in the dumped episodes", got, valid/turns)
	}
}

// batchNumbers scores every sample with the number of the call, so that no group has a spread and further batches are
// played.
type batchNumbers struct{ batches float64 }

func (b *batchNumbers) Score(_ context.Context, samples []reward.Sample) ([]reward.Score, error) {
	b.batches++
	out := make([]reward.Score, len(samples))
	for i := range out {
		out[i].Value = b.batches
	}
	return out, nil
}

func (*batchNumbers) Close() error { return nil }

// dumped returns the episodes of a dump.
func dumped(t *testing.T, path string) []*data.Episode {
	t.Helper()
	episodes, err := dump.ReadFile(path)
	must(t, err)
	return episodes
}
