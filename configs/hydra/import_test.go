package hydra

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// imported reads a script and imports it.
func imported(t *testing.T, file string, vars map[string]string) Result {
	t.Helper()
	c, err := ReadScript(read(t, file), vars, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return Import(c, Options{Schema: schema, From: file, Defaults: true})
}

func rowOf(t *testing.T, r Result, key string) Row {
	t.Helper()
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Key == key })
	if i < 0 {
		t.Fatalf("there is no row for %s", key)
	}
	return r.Rows[i]
}

// TestImportScripts compares imported start scripts with golden files, and checks
// that they are valid.
func TestImportScripts(t *testing.T) {
	for file, vars := range map[string]map[string]string{
		"train_ppo.sh":  {"PORT_LIST": "36005"},
		"train_grpo.sh": nil,
	} {
		t.Run(file, func(t *testing.T) {
			r := imported(t, file, vars)
			if r.Faults != nil {
				t.Errorf("config check: %v", r.Faults)
			}
			golden := "testdata/" + strings.TrimSuffix(file, ".sh") + ".toml"
			if *update {
				if err := os.WriteFile(golden, r.TOML, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(r.TOML)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestImportReportsEveryKey(t *testing.T) {
	ppo, grpo := imported(t, "train_ppo.sh", nil), imported(t, "train_grpo.sh", nil)
	for _, tt := range []struct {
		r      Result
		key    string
		status Status
		says   string // text in the settings or the note of the row
	}{
		{ppo, "actor_rollout_ref.actor.optim.lr", Mapped, "actor.optim.lr = 1e-06"},
		{ppo, "data.env_ports", Open, "$PORT_LIST"},
		{ppo, "actor_rollout_ref.rollout.n_agent", Mapped, "never reads it; here it works"},
		{ppo, "actor_rollout_ref.actor.ppo_mini_batch_size", Mapped, "all rows"},
		{ppo, "actor_rollout_ref.ref.fsdp_config.param_offload", Ignored, "has no effect here: only used with actor.use_kl_loss = true or algo.use_kl_in_reward = true"},
		{ppo, "data.max_start_length", Ignored, "never reads it"},
		{ppo, "data.max_obs_length", Mapped, "agent.max_obs_tokens = 1000"},
		{ppo, "data.max_prompt_length", Mapped, "rollout.max_context_tokens = 5096"},
		{ppo, "data.train_data_num", Ignored, "no limit"},
		{ppo, "trainer.logger", Mapped, `log.backends = ["console", "jsonl", "wandb"]`},
		{ppo, "trainer.n_gpus_per_node", Ignored, "--processes"},
		{ppo, "trainer.nnodes", Ignored, "--processes"},
		{ppo, "trainer.val_only", Ignored, ""},
		{ppo, "trainer.default_local_dir", Mapped, `trainer.output_dir = "verl_checkpoints"`},
		{ppo, "critic.model.enable_gradient_checkpointing", Mapped, ""},
		{ppo, "actor_rollout_ref.actor.entropy_coeff", Mapped, "actor.entropy_coef = 0.001"}, // a default
		{grpo, "data.env_ports", Mapped, `["http://gym.local:36001", "http://gym.local:36002"]`},
		{grpo, "critic.model.path", Ignored, `has no effect here: only used with algo.adv_estimator = "gae"`},
		{grpo, "actor_rollout_ref.model.path", Mapped, `model.path = "Qwen/Qwen2.5-3B"`},
		{grpo, "actor_rollout_ref.actor.optim.lrr", Unknown, "did you mean actor_rollout_ref.actor.optim.lr?"},
		{grpo, "trainer.nnodes", Ignored, "default applies"},
		{grpo, "trainer.default_local_dir", Mapped, `trainer.output_dir = "out/agents"`},
		{grpo, "algorithm.reward_components.length_penalty.penalty_type", Mapped, `reward.components.length.penalty_type = "logarithmic"`},
	} {
		row := rowOf(t, tt.r, tt.key)
		if said := strings.Join(row.To, " ") + " " + row.Note; row.Status != tt.status || !strings.Contains(said, tt.says) {
			t.Errorf("%s is %s: %s; want %s with %q", tt.key, row.Status, said, tt.status, tt.says)
		}
	}
	if ppo.Doubtful() == 0 || len(ppo.Words) != 0 {
		t.Errorf("%d doubtful rows, want some; other words %q, want none", ppo.Doubtful(), ppo.Words)
	}
}

// settingsOf imports overrides without defaults.
func settingsOf(t *testing.T, overrides ...string) (string, Result) {
	t.Helper()
	r := Import(ReadWords(overrides), Options{Schema: schema, From: "test"})
	lines := strings.Split(string(r.TOML), "\n")
	var out []string
	for _, line := range lines[2:] {
		line, _, _ = strings.Cut(line, "  # ")
		if line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, " "), r
}

func TestImportSettings(t *testing.T) {
	for _, tt := range []struct {
		overrides string
		want      string
	}{
		{"actor_rollout_ref.actor.clip_ratio=0.1", "[actor] clip_ratio_low = 0.1 clip_ratio_high = 0.1"},
		{"actor_rollout_ref.actor.clip_ratio_high=0.3 actor_rollout_ref.actor.clip_ratio=0.1", "[actor] clip_ratio_low = 0.1 clip_ratio_high = 0.3"},
		{"trainer.total_training_steps=null", "[trainer] total_steps = 0"},
		{"trainer.save_freq=-1 trainer.test_freq=5", "[trainer] save_every = 0 test_every = 5"},
		{"algorithm.adv_estimator=gae trainer.critic_warmup=6", `[algo] adv_estimator = "gae" [trainer] critic_warmup = 5`}, // upstream the value is the number of the first step that trains the actor
		{"algorithm.adv_estimator=gae trainer.critic_warmup=0", `[algo] adv_estimator = "gae" [trainer] critic_warmup = 0`},
		{"trainer.critic_warmup=6", ""},
		{"trainer.resume_mode=disable", `[trainer] resume = "never"`},
		{"trainer.experiment_name=7", `[trainer] experiment = "7"`},
		{"trainer.total_epochs=1e1 trainer.total_training_steps=0", "[trainer] epochs = 10 total_steps = 0"},
		{"env.env_name=alfworld/AlfredTWEnv env.max_steps=50 env.rollout.n=8", `[[env]] name = "alfworld" [agent] max_turns = 50 [rollout] group_size = 8`},
		{"env.history_length=2", `[agent] format = "history" history_length = 2`},
		{"env.history_length=0", ""},
		{"actor_rollout_ref.actor.use_invalid_action_penalty=True actor_rollout_ref.actor.invalid_action_penalty_coef=0.2", "[reward] invalid_action_penalty = 0.2"},
		{"actor_rollout_ref.actor.use_invalid_action_penalty=True", "[reward] invalid_action_penalty = 0.1"},
		{"actor_rollout_ref.actor.invalid_action_penalty_coef=0.2", ""},
		{"actor_rollout_ref.rollout.val_kwargs.do_sample=False actor_rollout_ref.rollout.val_kwargs.temperature=0.4", "[rollout.val] temperature = 0.0"},
		{"actor_rollout_ref.actor.optim.lr_warmup_steps=10 actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.5", "[actor.optim] warmup_ratio = 0.0 warmup_steps = 10"},
		{"actor_rollout_ref.actor.optim.lr_warmup_steps=-1 actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.5", "[actor.optim] warmup_ratio = 0.5"},
		{"actor_rollout_ref.actor.optim.min_lr_ratio=0.1", ""},
		{"actor_rollout_ref.actor.optim.min_lr_ratio=0.1 actor_rollout_ref.actor.optim.warmup_style=cosine", `[actor.optim] schedule = "cosine" min_lr_ratio = 0.1`},
		{"algorithm.reward_score_fn=agentgym", `[reward] score_fn = "agentgym"`},
		{"algorithm.reward_score_fn=qa_em format_score=0.1", `[reward] score_fn = "qa_em" format_score = 0.1`},
		{"format_score=0.1", ""},
		{"algorithm.reward_score_fn=null", ""},
		{"algorithm.filter_groups.metric=acc", `[algo] filter_metric = "env_reward"`},
		{"algorithm.adv_estimator=gae algorithm.gamma=0.9", `[algo] adv_estimator = "gae" gamma = 0.9`},
		{"algorithm.gamma=0.9 algorithm.reward_allocation=discounted", `[reward] allocation = "discounted" gamma = 0.9`},
		{"algorithm.use_pf_ppo=true algorithm.pf_ppo.reweight_method=max_min", `[algo] pf_ppo = "max_min"`},
		{"algorithm.rollout_correction.rollout_is=token algorithm.rollout_correction.rollout_is_threshold=0.5_5.0", `[algo.rollout_correction] rollout_is = "token" rollout_is_threshold = 5.0 rollout_is_threshold_lower = 0.5`},
		{"algorithm.rollout_correction.rollout_is=token algorithm.rollout_correction.rollout_is_threshold='3.5'", `[algo.rollout_correction] rollout_is = "token" rollout_is_threshold = 3.5`},
		{"algorithm.adv_estimator=gigpo algorithm.gigpo.enable_similarity=True", `[algo] adv_estimator = "gigpo" gigpo_similarity_thresh = 0.95`},
		{"algorithm.adv_estimator=gigpo algorithm.gigpo.enable_similarity=True algorithm.gigpo.similarity_thresh=0.9", `[algo] adv_estimator = "gigpo" gigpo_similarity_thresh = 0.9`},
		{"algorithm.adv_estimator=gigpo algorithm.gigpo.enable_similarity=False algorithm.gigpo.similarity_thresh=0.9", `[algo] adv_estimator = "gigpo"`},
		{"algorithm.adv_estimator=rloo_vectorized", `[algo] adv_estimator = "rloo"`},
		{"algorithm.rollout_correction.rollout_rs=token_k1 algorithm.rollout_correction.rollout_rs_threshold='0.5_2'", `[algo.rollout_correction] rollout_rs = ["token_k1"] rollout_rs_threshold = ["0.5_2"]`},
		{"algorithm.reward_components.goal_reward.weight=2", ""},
		{"algorithm.reward_components.format_reward.enabled=true algorithm.reward_components.format_reward.patterns_by_env.default=['<act>.*</act>']",
			`[reward.components.format] patterns = ["<act>.*</act>"] weight = 0.2 [reward.components.goal] weight = 1.0`},
		{"actor_rollout_ref.model.torch_dtype=fp32", `[model] compute_dtype = "float32"`},
		{"data.env_ports=36001", `[[env]] servers = ["http://127.0.0.1:36001"]`},
		{"data.train_max_samples=-1 data.train_data_num=10", "[data] train_limit = 10"},
		{"algorithm.adv_estimator=gae actor_rollout_ref.actor.ppo_mini_batch_size=3 data.train_batch_size=6 actor_rollout_ref.rollout.n=4",
			`[data] train_batch_size = 6 [rollout] group_size = 4 [algo] adv_estimator = "gae" [actor] mini_batch_size = 12 [critic] mini_batch_size = 3`},
		{"algorithm.adv_estimator=gae actor_rollout_ref.actor.ppo_mini_batch_size=3 data.train_batch_size=6 actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.mode=async",
			`[data] train_batch_size = 6 [rollout] group_size = 4 [algo] adv_estimator = "gae" [actor] mini_batch_size = 12 [critic] mini_batch_size = 12`},
		{"algorithm.adv_estimator=gae critic.ppo_mini_batch_size=2 data.train_batch_size=6 actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.mode=async",
			`[data] train_batch_size = 6 [rollout] group_size = 4 [algo] adv_estimator = "gae" [critic] mini_batch_size = 8`},
		{"algorithm.adv_estimator=gae actor_rollout_ref.actor.ppo_mini_batch_size=3 data.train_batch_size=6 actor_rollout_ref.rollout.n_agent=4",
			`[data] train_batch_size = 6 [rollout] group_size = 4 [algo] adv_estimator = "gae" [actor] mini_batch_size = 3 [critic] mini_batch_size = 3`},
		{"algorithm.adv_estimator=gae actor_rollout_ref.actor.ppo_mini_batch_size=6 data.train_batch_size=5 actor_rollout_ref.rollout.n=4",
			`[data] train_batch_size = 5 [rollout] group_size = 4 [algo] adv_estimator = "gae" [actor] mini_batch_size = 0 [critic] mini_batch_size = 6`},
		{"actor_rollout_ref.actor.optim.lr_warmup_steps=0 actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.5", "[actor.optim] warmup_ratio = 0.0 warmup_steps = 0"},
		{"algorithm.use_kl_in_reward=true algorithm.kl_ctrl={type:adaptive,kl_coef:0.01}", `[algo] use_kl_in_reward = true kl_ctrl = "adaptive" kl_coef = 0.01`},
		{"algorithm={adv_estimator:gae,use_kl_in_reward:true,kl_ctrl:{kl_coef:0.01},gamma:${algorithm.lam},lam:0.9}", `[algo] adv_estimator = "gae" gamma = 0.9 lam = 0.9 use_kl_in_reward = true kl_coef = 0.01`},
		{"reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=128 data.max_response_length=1024 reward_model.reward_manager=dapo",
			"[rollout] max_new_tokens = 1024 [reward.components.goal] weight = 1.0 [reward.components.overlong] max_length = 1024 overlong_buffer = 128 overlong_factor = 1.0"},
		{"reward_model.reward_kwargs.overlong_buffer_cfg={enable:true,len:9,penalty_factor:2} reward_model.reward_kwargs.max_resp_len=90",
			"[reward.components.goal] weight = 1.0 [reward.components.overlong] max_length = 90 overlong_buffer = 9 overlong_factor = 2"},
		{"data.truncation=middle data.filter_overlong_prompts=False", `[data] truncation = "middle" filter_overlong = false`},
		{"data.filter_overlong_prompts=True data.truncation=left", "[data] filter_overlong = true"},
		{"reward_model.overlong_buffer.enable=False reward_model.overlong_buffer.len=128", ""},
	} {
		t.Run(tt.overrides, func(t *testing.T) {
			got, _ := settingsOf(t, strings.Fields(tt.overrides)...)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestImportRefusals(t *testing.T) {
	for override, want := range map[string]Status{
		"algorithm.adv_estimator=rloop":                           Unsupported,
		"actor_rollout_ref.rollout.temperature=hot":               Unsupported,
		"actor_rollout_ref.actor.ppo_epochs=2":                    Mapped,
		"actor_rollout_ref.model.path=hdfs://x/y":                 Unsupported,
		"data.env_ports=[high]":                                   Unsupported,
		"env.summary_api_key=secret":                              Unsupported,
		"env.summary_api_key=null":                                Ignored,
		"reward_model.enable=True":                                Unsupported,
		"reward_model.enable=False":                               Ignored,
		"reward_model.model.path=x":                               Ignored,
		"trainer.default_hdfs_dir=null":                           Ignored,
		"actor_rollout_ref.model.override_config={}":              Ignored,
		"actor_rollout_ref.model.override_config={a: 1}":          Unsupported,
		"trainer.project_name=${trainer.experiment_name}":         Open,
		"trainer.project_name=${trainer.project_name}":            Open,
		"actor_rollout_ref.rollout.multi_turn.max_parallel_calls": "",
		"optim.rl=1": Unknown,
	} {
		_, r := settingsOf(t, override)
		if want == "" {
			if len(r.Words) != 1 || len(r.Rows) != 0 {
				t.Errorf("%s: %+v", override, r)
			}
			continue
		}
		if len(r.Rows) != 1 || r.Rows[0].Status != want {
			t.Errorf("%s: %+v, want %s", override, r.Rows, want)
		}
	}
}

// TestImportDefaults checks that a command line with only data files has the original's defaults.
func TestImportDefaults(t *testing.T) {
	r := Import(ReadWords([]string{"data.train_files=train.parquet", "data.val_files=val.parquet"}), Options{Schema: schema, From: "test", Defaults: true})
	if r.Faults != nil {
		t.Fatal(r.Faults)
	}
	cfg, err := schema.Load("test", r.TOML, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := cfg.Actor; cfg.Algo.AdvEstimator != "gae" || a.Params["clip_ratio_high"] != 0.2 || a.EntropyCoef != 0.001 || cfg.Rollout.GroupSize != 1 ||
		cfg.Trainer.SaveEvery != 0 || cfg.Trainer.Epochs != 30 || cfg.Trainer.TotalSteps != 0 || a.MiniBatchSize != 256 || cfg.Critic.MiniBatchSize != 256 {
		t.Errorf("the configuration lacks a default of the original:\n%s", r.TOML)
	}
}

// TestImportMiniBatchesOfGroups checks that the imported example makes as many updates per step as the original.
func TestImportMiniBatchesOfGroups(t *testing.T) {
	r := Import(ReadWords([]string{"algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=8", "data.train_files=a.parquet", "data.val_files=b.parquet"}),
		Options{Schema: schema, Defaults: true})
	cfg, err := schema.Load("test", r.TOML, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rows := cfg.Data.TrainBatchSize * cfg.Rollout.GroupSize; rows != 8192 || rows/cfg.Actor.MiniBatchSize != 4 {
		t.Errorf("%d episodes per step in mini-batches of %d, want 8192 in 4 mini-batches", rows, cfg.Actor.MiniBatchSize)
	}
	r = Import(Command{Overrides: []Override{
		{Key: "actor_rollout_ref.rollout.n", Text: "$N", Missing: []string{"$N"}},
		{Key: "actor_rollout_ref.actor.ppo_mini_batch_size", Text: "4", Value: int64(4)},
	}}, Options{Schema: schema})
	if row := rowOf(t, r, "actor_rollout_ref.actor.ppo_mini_batch_size"); row.Status != Open {
		t.Errorf("without a known group size: row %+v, want the status open", row)
	}
}

// TestImportSources checks that the source of a command line determines the
// defaults and the notes on keys that the original never reads.
func TestImportSources(t *testing.T) {
	const dead, entropy, val = "actor_rollout_ref.actor.ppo_epochs", "actor_rollout_ref.actor.entropy_coeff", "actor_rollout_ref.rollout.val_kwargs.temperature"
	for _, tt := range []struct {
		given   string
		of, why string
		entropy float64
		val     float64
	}{
		{"max_turns=3 actor_rollout_ref.rollout.mode=async", omrl, "max_turns", 0.001, 0.4},
		{"trainer.total_epochs=3", omrl, "no key", 0.001, 0.4},
		{"actor_rollout_ref.rollout.val_kwargs.n=4", verl, "val_kwargs.n", 0, 0},
		{"hydra.run.dir=x actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4", verl, "log_prob_micro_batch_size_per_gpu", 0, 0},
		{"env.rollout.n=4 actor_rollout_ref.rollout.mode=async", omrl2, "env.rollout.n", 0, 0},
		{val + "=0.7 data.seed=1", verl, "val_kwargs.temperature", 0, 0.7},
	} {
		t.Run(tt.given, func(t *testing.T) {
			given := append(strings.Fields(tt.given), dead+"=2", "actor_rollout_ref.actor.fsdp_config.fsdp_size=-1")
			r := Import(ReadWords(given), Options{Schema: schema, Defaults: true})
			if r.Source != tt.of || !strings.Contains(r.Why, tt.why) {
				t.Errorf("source %q, reason %q; want %q, %q", r.Source, r.Why, tt.of, tt.why)
			}
			with := append(given, "data.env_name=maze", "data.train_files=a.parquet", "data.val_files=b.parquet", modelAt+"path=m")
			if tt.of == omrl {
				full := Import(ReadWords(with), Options{Schema: schema, Defaults: true})
				cfg, err := schema.Load("test", full.TOML, nil)
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Actor.EntropyCoef != tt.entropy || cfg.Rollout.Val.Temperature != tt.val {
					t.Errorf("want entropy_coef %v and validation temperature %v in\n%s", tt.entropy, tt.val, full.TOML)
				}
			}
			text := string(r.TOML)
			if own := strings.Contains(text, "webshop") || strings.Contains(text, "36001") || strings.Contains(text, "deepseek"); own != (tt.of == omrl) {
				t.Errorf("the configuration has OpenManus-RL's environment or model: %v\n%s", own, text)
			}
			if got := strings.Contains(text, "entropy_coef = 0.001"); got != (tt.entropy != 0) {
				t.Errorf("the configuration has entropy_coef = 0.001: %v\n%s", got, text)
			}
			if greedy := strings.Contains(text, "temperature = 0  # "+val); greedy != (tt.val == 0) {
				t.Errorf("has greedy validation: %v\n%s", greedy, text)
			}
			for _, key := range []string{dead, "actor_rollout_ref.actor.fsdp_config.fsdp_size"} {
				if row := rowOf(t, r, key); strings.Contains(row.Note, "never reads it") != (tt.of == omrl) {
					t.Errorf("wrong note on a key that only OpenManus-RL never reads: %+v", row)
				}
			}
		})
	}
}

func TestImportFlags(t *testing.T) {
	c, err := ReadScript("python3 -m recipe.dapo.main_dapo --config-name=mine -cp $DIR a=1 --config-name ppo_trainer.yaml --cfg job", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := Import(c, Options{Schema: schema})
	var got []string
	for _, row := range r.Rows {
		got = append(got, row.Key+"="+row.Value+" "+string(row.Status))
	}
	want := []string{"--config-name=mine open", "-cp=${DIR} open", "--config-name=ppo_trainer.yaml ignored", "--cfg=job ignored", "a=1 unknown"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Source != verl {
		t.Errorf("source %q, want verl", r.Source)
	}
}

func TestImportHome(t *testing.T) {
	words := ReadWords([]string{"data.train_files=[~/a.parquet,b/~/c.parquet]", "actor_rollout_ref.model.path=~/m/", "trainer.project_name=~/x"})
	for home, want := range map[string][]string{
		"/my/home": {`tasks = ["/my/home/a.parquet", "b/~/c.parquet"]`, `path = "/my/home/m"`, `project = "~/x"`},
		"":         {`tasks = ["~/a.parquet", "b/~/c.parquet"]`, `path = "~/m"`},
	} {
		text := string(Import(words, Options{Schema: schema, Home: home}).TOML)
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%q is not in\n%s", line, text)
			}
		}
	}
}

func TestImportSFT(t *testing.T) {
	const script = `torchrun --nproc_per_node=1 -m verl.trainer.fsdp_sft_trainer data.train_files=a.parquet data.val_files=b.parquet \
  data.prompt_key=prompt data.response_key=response data.max_length=2048 optim.lr=1e-4 data.train_batch_size=128 data.micro_batch_size=4 \
  model.partial_pretrain=Qwen/Qwen2.5-0.5B +model.lora_rank=64 model.lora_alpha=32 model.target_modules=all-linear trainer.total_epochs=5`
	c, err := ReadScript(script, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := Import(c, Options{Schema: schema, From: "test", Defaults: true})
	if r.Faults != nil {
		t.Fatal(r.Faults)
	}
	cfg, err := schema.Load("test", r.TOML, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Env) > 0 {
		t.Errorf("the configuration of SFT has an environment:\n%s", r.TOML)
	}
	s := cfg.SFT
	if s.Epochs != 5 || s.Files[0] != "a.parquet" || s.ValFiles[0] != "b.parquet" || s.PromptKey != "prompt" || s.MaxLength != 2048 || s.MicroBatchSize != 4 ||
		s.Optim.LR != 1e-4 || cfg.Model.LoRARank != 64 || cfg.Model.TargetModules[0] != "all-linear" {
		t.Errorf("a setting of the script is missing in\n%s", r.TOML)
	}
}

// TestImportIdentifiesTheTrainer checks that, without a program, the import chooses the trainer with
// more exclusive keys, and reports the other trainer's exclusive keys as not supported.
func TestImportIdentifiesTheTrainer(t *testing.T) {
	const both = "data.train_files=a.parquet trainer.total_epochs=2 "
	for _, tt := range []struct {
		given, program string
		of             string
		why, refused   string
	}{
		{both + "data.max_length=256", "", sft, "data.max_length", ""},
		{both + "optim={lr:1e-4}", "", sft, "optim.lr", ""},
		{both + "data.max_prompt_length=256", "", omrl, "no key", ""},
		{both + "model.partial_pretrain=m optim.lr=1e-4 max_turns=3", "", sft,
			"model.partial_pretrain; but only the reinforcement learning trainer (main_ppo) has max_turns", "max_turns"},
		{both + "data.max_length=9 actor_rollout_ref.model.path=m max_turns=3", "", omrl,
			"max_turns; but only the SFT trainer (fsdp_sft_trainer) has data.max_length", "data.max_length"},
		{both + "data.max_length=9 optim.lr=1e-4 optim.lr=1e-5", "verl.trainer.main_ppo", verl, "data.max_length and 1 more", "optim.lr"},
	} {
		t.Run(tt.given, func(t *testing.T) {
			c := ReadWords(strings.Fields(tt.given))
			c.Program = tt.program
			r := Import(c, Options{Schema: schema, Defaults: true})
			if r.Source != tt.of || !strings.Contains(r.Why, tt.why) {
				t.Errorf("source %q, reason %q; want %q, %q", r.Source, r.Why, tt.of, tt.why)
			}
			if got := strings.Contains(string(r.TOML), `files = ["a.parquet"]`); got != (tt.of == sft) {
				t.Errorf("[sft] with the data files: got %v, want %v\n%s", got, tt.of == sft, r.TOML)
			}
			if tt.refused == "" {
				return
			}
			if row := rowOf(t, r, tt.refused); row.Status != Unsupported || !strings.Contains(row.Note, "the two trainers separately") {
				t.Errorf("row %+v, want the status not supported", row)
			}
		})
	}
}

// TestImportBoundsInterpolation checks that settings that refer twice to another one do not take exponential time.
func TestImportBoundsInterpolation(t *testing.T) {
	var words []string
	for c := 'a'; c < 'z'; c++ {
		words = append(words, fmt.Sprintf("x.%c=${x.%c}${x.%c}", c, c+1, c+1))
	}
	r := Import(ReadWords(append(words, "x.z=", "trainer.project_name=${x.a}")), Options{Schema: schema, From: "test"})
	if row := rowOf(t, r, "trainer.project_name"); row.Status != Open {
		t.Errorf("row %+v, want the status open", row)
	}
}
