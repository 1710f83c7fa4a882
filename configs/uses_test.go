package configs

import (
	"errors"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data/registry"
)

// TestUnreadKeys sets keys without effect in a GRPO configuration, in the file and
// by --set. The error must name the settings that they need.
func TestUnreadKeys(t *testing.T) {
	for _, c := range []struct{ key, value, with string }{
		{"algo.lam", "0.9", `algo.adv_estimator = "gae"`},
		{"algo.kl_ctrl", `"adaptive"`, "algo.use_kl_in_reward = true"},
		{"algo.kl_target", "0.2", `algo.use_kl_in_reward = true and algo.kl_ctrl = "adaptive"`},
		{"algo.gamma", "0.9", `algo.adv_estimator = "gae", "gigpo", "reinforce" or "reinforce_plus_plus"`},
		{"algo.gigpo_norm", `"mean_std_norm"`, `algo.adv_estimator = "gigpo"`},
		{"algo.max_gen_batches", "9", "algo.filter_groups = true"},
		{"algo.agentevol.per_task", "2", `algo.name = "agentevol"`},
		{"algo.rollout_correction.loss_type", `"reinforce"`, "algo.rollout_correction.bypass_mode = true"},
		{"algo.rollout_correction.rollout_is_threshold", "3.0", `algo.rollout_correction.rollout_is = "token" or "sequence"`},
		{"actor.kl_loss_coef", "0.1", "actor.use_kl_loss = true"},
		{"actor.tau_pos", "2.0", `actor.policy_loss = "sapo"`},
		{"actor.max_tokens_per_micro_batch", "9000", "actor.dynamic_batch = true"},
		{"actor.optim.min_lr_ratio", "0.1", `actor.optim.schedule = "linear" or "cosine"`},
		{"critic.optim.lr", "1e-4", `algo.adv_estimator = "gae"`},
		{"critic.path", `"c"`, `algo.adv_estimator = "gae"`},
		{"critic.optim.min_lr_ratio", "0.1", `algo.adv_estimator = "gae" and critic.optim.schedule = "linear" or "cosine"`},
		{"trainer.critic_warmup", "3", `algo.adv_estimator = "gae"`},
		{"ref.path", `"r"`, "actor.use_kl_loss = true or algo.use_kl_in_reward = true"},
		{"reward.gamma", "0.5", `reward.allocation = "discounted"`},
		{"reward.format_score", "0.5", `reward.score_fn = "countdown", "data_source", "gsm8k", "multiply", "qa_em" or "subem"`},
		{"reward.model_path", `"r"`, "the score function model, in reward.score_fn or [reward.components.model]"},
		{"reward.score_batch_size", "3", "an http://, https:// or exec: score function"},
		{"agent.memory_file", `"m"`, `an [[env]] table that leaves out memory_file and has format = "staged"`},
		{"agent.history_length", "5", `an [[env]] table that leaves out history_length and has format = "history" or "staged"`},
		{"agent.summary.base_url", `"http://127.0.0.1:1/v1"`, "use_summary = true in an [[env]] table"},
		{"model.lora_alpha", "32.0", "model.lora_rank above 0"},
		{"model.fresh.walk_lr", "0.1", "model.fresh.layers above 0 and model.fresh.walks above 0"},
		{"sft.optim.lr", "1e-3", "sft.epochs above 0"},
		{"sft.skip_idle", "true", `sft.epochs above 0, model.fresh.layers above 0 or algo.name = "agentevol"`},
		{"curriculum.rest_steps", "3", "curriculum.failures above 0"},
		{"rollout.api.retries", "3", `rollout.engine = "openai"`},
		{"data.off_policy", "true", "a dump in data.from_dump"},
		{"trainer.epochs", "3", "trainer.total_steps = 0"},
	} {
		t.Run(c.key, func(t *testing.T) {
			want := "only used with " + c.with + ": set that, or take it out"
			for name, how := range map[string]struct {
				text string
				sets []string
			}{
				"file": {minimal + "[" + sectionOf(c.key) + "]\n" + c.key[strings.LastIndexByte(c.key, '.')+1:] + " = " + c.value + "\n", nil},
				"set":  {minimal, []string{c.key + "=" + c.value}},
			} {
				if strings.HasPrefix(c.key, "model.") && strings.Count(c.key, ".") == 1 && name == "file" {
					how.text = strings.Replace(minimal, "path = \"m\"\n", "path = \"m\"\n"+c.key[len("model."):]+" = "+c.value+"\n", 1)
				}
				_, err := schema.Load("run.toml", []byte(how.text), how.sets)
				var fs Faults
				if !errors.As(err, &fs) || len(fs) != 1 || fs[0].Key != c.key || fs[0].Msg != want {
					t.Errorf("%s: want %q, got %v", name, want, err)
				}
			}
		})
	}
}

// TestUnreadServedKeys sets the keys of [[env]] tables' episodes in a run on the episodes of agents in other programs. They
// have an effect only with an [[env]] table, which validates.
func TestUnreadServedKeys(t *testing.T) {
	const (
		alone   = "[model]\npath = \"m\"\n[trainer]\ntest_every = 0\nval_before_train = false\n"
		listen  = "[serve]\nlisten = \"127.0.0.1:0\"\n"
		address = "serve.listen=127.0.0.1:0"
		table   = "[[env]]\nname = \"maze\"\nweight = 0\nval_tasks = \"1\"\n"
		imitate = "[sft]\nepochs = 1\nfiles = [\"a.jsonl\"]\n"
	)
	const tables, empty = "an [[env]] table, or an empty serve.listen", "an empty serve.listen"
	for _, c := range []struct{ key, value, with string }{
		{"data.max_prompt_tokens", "100", tables},
		{"data.filter_overlong", "true", tables},
		{"data.truncation", `"left"`, tables},
		{"data.train_limit", "3", tables},
		{"data.val_limit", "3", tables},
		{"data.seed", "3", tables},
		{"data.shuffle", "false", empty},
		{"agent.max_obs_tokens", "9", tables},
		{"agent.max_parse_failures", "3", tables},
		{"agent.episode_retries", "1", tables},
		{"agent.episode_replays", "3", tables},
		{"agent.max_turns", "3", "an [[env]] table that leaves out max_turns"},
		{"agent.format", `"react"`, "an [[env]] table that leaves out format"},
		{"rollout.val.temperature", "0.7", tables},
		{"rollout.val.group_size", "3", tables},
	} {
		i := strings.LastIndexByte(c.key, '.')
		set := "[" + c.key[:i] + "]\n" + c.key[i+1:] + " = " + c.value + "\n"
		for name, how := range map[string]struct {
			text    string
			sets    []string
			without bool // the key is an error
		}{
			"file":          {alone + listen + set, nil, true},
			"--serve":       {alone + set, []string{address}, true},
			"--set":         {alone + listen, []string{c.key + "=" + c.value}, true},
			"validations":   {alone + listen + set + table, nil, c.with == empty},
			"from a dump":   {alone + set, []string{"data.from_dump=d.jsonl"}, false},
			"only imitates": {alone + imitate + set, nil, false},
		} {
			_, err := schema.Load("run.toml", []byte(how.text), how.sets)
			var fs Faults
			unread := errors.As(err, &fs) && len(fs) == 1 && fs[0].Key == c.key && fs[0].Msg == "only used with "+c.with+": set that, or take it out"
			if unread != how.without || err != nil && !unread {
				t.Errorf("%s, %s: %v", c.key, name, err)
			}
		}
	}
	served := load(t, alone+listen, "rollout.max_context_tokens=200", "rollout.max_new_tokens=12")
	if len(served.Derived) > 0 {
		t.Errorf("values of keys without effect are derived: %v", served.Derived)
	}
	load(t, string(served.Marshal()))
}

// TestUnreadEnvKeys sets keys of [[env]] tables that have no effect.
func TestUnreadEnvKeys(t *testing.T) {
	for key, value := range map[string]string{
		"env.0.history_length": "3", "env.0.memory_file": "m", "env.0.use_summary": "true", "env.0.num_servers": "2",
		"env.1.final_ends": "true", "env.0.vocabulary": "v", "env.0.recipes": "r", "env.0.expert_tasks": "0-1",
	} {
		_, err := schema.Load("run.toml", []byte(minimal), []string{key + "=" + value})
		if err == nil || !strings.Contains(err.Error(), key+": only used with ") {
			t.Errorf("%s: got %v, want a fault with the needed settings", key, err)
		}
	}
	// An override of all tables is valid if the key has an effect in one of them.
	c := load(t, minimal, "env.1.format=history", "env.history_length=3")
	if c.Env[0].HistoryLength != -1 || c.Env[1].HistoryLength != 3 {
		t.Errorf("history_length of the two tables is %d and %d, want -1 and 3", c.Env[0].HistoryLength, c.Env[1].HistoryLength)
	}
	if _, err := schema.Load("run.toml", []byte(minimal), []string{"env.history_length=3"}); err == nil || strings.Count(err.Error(), "only used with") != 1 {
		t.Errorf("a key without effect in all tables: got %v, want one fault", err)
	}
}

// TestDefaultValuesAreNoFault checks that unused keys may be set to their defaults:
// config show prints all defaults, and --set uses them to switch features off.
func TestDefaultValuesAreNoFault(t *testing.T) {
	load(t, minimal+"[algo]\nlam = 1.0\n")
	load(t, minimal, "model.fresh.walks=0", "env.expert_tasks=[]")
}

// TestOverridesMaySwitchOff checks that --set may switch off a feature whose
// other keys are set in the file.
func TestOverridesMaySwitchOff(t *testing.T) {
	ppo := minimal + "[algo]\nadv_estimator = \"gae\"\nlam = 0.9\n[critic]\nepochs = 2\n"
	c := load(t, ppo, "algo.adv_estimator=grpo")
	if want := schema.Defaults(); c.Algo.Params["lam"] != want.Algo.Params["lam"] || c.Critic.Epochs != want.Critic.Epochs {
		t.Errorf("values without effect were not reset: lam %v, critic.epochs %v", c.Algo.Params["lam"], c.Critic.Epochs)
	}
	load(t, string(c.Marshal())) // the written configuration loads
	dump := minimal + "[sft]\nepochs = 1\nfiles = [\"x.jsonl\"]\ndump_success = false\n"
	if _, err := schema.Load("run.toml", []byte(dump), nil); err == nil {
		t.Error("sft.dump_success is accepted without a dump")
	}
	load(t, dump, "data.from_dump=d.jsonl", "model.path=m")
}

// TestPresetKeysMayBeUnread checks that a preset and the saved configuration of a
// run may set keys without effect.
func TestPresetKeysMayBeUnread(t *testing.T) {
	c, err := schema.LoadPreset("ppo", nil, []string{"algo.adv_estimator=grpo", "rollout.group_size=4"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Trainer.CriticWarmup != 0 || c.Critic.MiniBatchSize != schema.Defaults().Critic.MiniBatchSize {
		t.Errorf("the unused critic keys of the preset were not reset: %+v", c.Critic)
	}
	old := minimal + "[algo]\nlam = 0.9\n"
	saved, err := schema.LoadSaved("config.toml", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if d := Diff(saved, load(t, minimal)); len(d) > 0 {
		t.Errorf("Diff lists a key without effect: %v", d)
	}
}

// TestShownConfigurationsAreAccepted loads the output of config show for every preset
// with every estimator and with both kinds of formats.
func TestShownConfigurationsAreAccepted(t *testing.T) {
	for _, name := range PresetNames() {
		text, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Load(name, text, nil); err != nil {
			t.Errorf("loading the preset %s as a user's file: %v", name, err)
		}
		variants := [][]string{nil, {"actor.dynamic_batch=true"}, {"env.format=staged"}, {"env.format=react"}, {"sft.epochs=0"}, {"algo.name=agentevol"}, {"serve.listen=:0", "env.weight=0"}}
		for _, e := range registry.NamesOf(schema.words.Estimators, nil) {
			variants = append(variants, []string{"algo.adv_estimator=" + e, "rollout.group_size=4"})
		}
		for _, l := range registry.NamesOf(schema.words.Losses, nil) {
			variants = append(variants, []string{"actor.policy_loss=" + l, "actor.loss_agg=seq-mean-token-mean"})
		}
		accepted := 0
		for _, sets := range variants {
			c, err := schema.LoadPreset(name, nil, sets)
			if err != nil {
				continue // invalid combinations, such as remax with agentevol
			}
			accepted++
			again, err := schema.Load("shown.toml", c.Marshal(), nil)
			if err != nil {
				t.Errorf("%s %v: %v", name, sets, err)
				continue
			}
			if d := Diff(c, again); len(d) > 0 {
				t.Errorf("%s %v: %v", name, sets, d)
			}
		}
		if accepted < len(variants)/2 && name != "agentevol" { // estimators have no effect in agentevol
			t.Errorf("%s: only %d of %d variants are accepted", name, accepted, len(variants))
		}
	}
}
