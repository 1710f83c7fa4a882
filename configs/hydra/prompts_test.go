package hydra

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/configs"
)

// The settings of verl's text-only examples for one machine (volcengine/verl, folders examples and recipe), each line
// with the settings that differ from the common ones.
const (
	verlData = "data.train_files=/d/gsm8k/train.parquet data.val_files=/d/gsm8k/test.parquet data.max_prompt_length=512 data.max_response_length=1024 "
	verlRun  = "actor_rollout_ref.actor.fsdp_config.param_offload=False actor_rollout_ref.actor.fsdp_config.optimizer_offload=False " +
		"actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.rollout.name=vllm " +
		"actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.ref.fsdp_config.param_offload=True " +
		"trainer.critic_warmup=0 trainer.logger=['console','wandb'] trainer.project_name=p trainer.experiment_name=e trainer.nnodes=1 trainer.save_freq=-1 trainer.test_freq=5 trainer.total_epochs=15 "
	verlFilter = "data.filter_overlong_prompts=True data.truncation=error "
)

var verlExamples = map[string]struct {
	line string
	toml []string // lines of the configuration
}{
	"grpo_trainer/run_qwen2-7b_math": {
		"algorithm.adv_estimator=grpo data.train_files=['/d/gsm8k/train.parquet','/d/math/train.parquet'] data.val_files=['/d/gsm8k/test.parquet','/d/math/test.parquet'] " +
			"data.max_prompt_length=1024 data.max_response_length=1024 " + verlFilter + "data.train_batch_size=1024 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.optim.lr=1e-6 " +
			"actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.001 " +
			"actor_rollout_ref.actor.kl_loss_type=low_var_kl actor_rollout_ref.actor.entropy_coeff=0 actor_rollout_ref.rollout.n=5 algorithm.use_kl_in_reward=False " + verlRun,
		[]string{`name = "gsm8k"`, `kind = "prompt"`, `tasks = ["/d/gsm8k/train.parquet", "/d/math/train.parquet"]`, "filter_overlong = true", "max_prompt_tokens = 1024", "group_size = 5"},
	},
	"grpo_trainer/run_qwen2_5-3b_gsm8k_grpo_lora": {
		"algorithm.adv_estimator=grpo " + verlData + verlFilter + "data.prompt_key=messages data.shuffle=False data.train_batch_size=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct " +
			"actor_rollout_ref.model.lora_rank=64 actor_rollout_ref.model.lora_alpha=32 actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 actor_rollout_ref.actor.use_kl_loss=True " +
			"actor_rollout_ref.rollout.n=5 actor_rollout_ref.rollout.load_format=safetensors actor_rollout_ref.rollout.layered_summon=True " + verlRun,
		[]string{`prompt_key = "messages"`, "shuffle = false", "lora_rank = 64"},
	},
	"grpo_trainer/run_qwen3-8b, without thinking": {
		"algorithm.adv_estimator=grpo " + verlData + "data.truncation=left +data.apply_chat_template_kwargs.enable_thinking=False data.train_batch_size=256 actor_rollout_ref.model.path=Qwen/Qwen3-8B " +
			"actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=5 data.reward_fn_key=data_source data.return_raw_chat=True " + verlRun,
		[]string{`chat_template_kwargs = {"enable_thinking" = "false"}`, `truncation = "left"`},
	},
	"a template of one's own": {
		"algorithm.adv_estimator=grpo " + verlData + "data.truncation=middle data.apply_chat_template_kwargs={enable_thinking:true,language:en} actor_rollout_ref.model.custom_chat_template=\"'{{messages[0].content}}'\" " +
			"data.train_batch_size=256 actor_rollout_ref.model.path=m data.reward_fn_key=source actor_rollout_ref.rollout.n=5 " + verlRun,
		[]string{`chat_template = "{{messages[0].content}}"`, `chat_template_kwargs = {"enable_thinking" = "true", "language" = "en"}`, `truncation = "middle"`, `source_key = "source"`},
	},
	"ppo_trainer/run_qwen2-7b_seq_balance": {
		verlData + "data.train_batch_size=4096 data.val_batch_size=1312 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=512 " +
			"actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 critic.optim.lr=1e-5 critic.model.path=Qwen/Qwen2-7B-Instruct critic.model.enable_gradient_checkpointing=True " +
			"algorithm.kl_ctrl.kl_coef=0.001 +trainer.val_before_train=False " + verlRun,
		[]string{`kind = "prompt"`, "max_tokens_per_micro_batch = 16384"},
	},
	"rloo_trainer/run_qwen2-7b": {
		"algorithm.adv_estimator=rloo " + verlData + verlFilter + "data.train_batch_size=1024 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=256 " +
			"actor_rollout_ref.rollout.n=5 algorithm.use_kl_in_reward=True algorithm.kl_penalty=kl algorithm.kl_ctrl.kl_coef=0.001 " + verlRun,
		[]string{`adv_estimator = "rloo"`, "use_kl_in_reward = true"},
	},
	"reinforce_plus_plus_trainer/run_qwen2-7b_math_rf_baseline": {
		"algorithm.adv_estimator=reinforce_plus_plus_baseline " + verlData + verlFilter + "data.train_batch_size=1024 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=1024 " +
			"actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_type=mse actor_rollout_ref.rollout.n=8 " + verlRun,
		[]string{`adv_estimator = "reinforce_plus_plus_baseline"`, `kl_loss_type = "mse"`},
	},
	"remax_trainer/run_qwen2.5-3b_seq_balance": {
		"algorithm.adv_estimator=remax " + verlData + verlFilter + "data.train_batch_size=512 actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=128 " +
			"actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=30000 actor_rollout_ref.rollout.n=4 algorithm.use_kl_in_reward=True algorithm.kl_penalty=kl trainer.val_before_train=False " + verlRun,
		[]string{`adv_estimator = "remax"`, "val_before_train = false"},
	},
	"gspo_trainer/test_gspo_3b_math": {
		"algorithm.adv_estimator=grpo actor_rollout_ref.actor.policy_loss.loss_mode=gspo actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean " + verlData + verlFilter +
			"data.shuffle=true data.prompt_key=prompt data.train_batch_size=512 actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct actor_rollout_ref.rollout.n=16 actor_rollout_ref.actor.clip_ratio_low=0.0003 " +
			"actor_rollout_ref.actor.clip_ratio_high=0.0004 actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.val_kwargs.temperature=1.0 actor_rollout_ref.rollout.val_kwargs.do_sample=true " +
			"actor_rollout_ref.rollout.val_kwargs.n=1 reward_model.reward_manager=dapo +reward_model.reward_kwargs.overlong_buffer_cfg.enable=false trainer.total_training_steps=500 trainer.resume_mode=auto " + verlRun,
		[]string{`policy_loss = "gspo"`, "clip_ratio_high = 0.0004", "total_steps = 500"},
	},
	"gpg_trainer/run_qwen2-7b_math": {
		"algorithm.adv_estimator=gpg " + verlData + verlFilter + "data.train_batch_size=1024 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.policy_loss.loss_mode=gpg " +
			"actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.use_kl_loss=False actor_rollout_ref.rollout.n=5 " + verlRun,
		[]string{`adv_estimator = "gpg"`, `policy_loss = "gpg"`},
	},
	"recipe/dapo": {
		"algorithm.adv_estimator=grpo " + verlData + "data.truncation=left data.prompt_key=prompt data.gen_batch_size=512 data.train_batch_size=256 actor_rollout_ref.model.path=m actor_rollout_ref.rollout.n=16 " +
			"algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc algorithm.filter_groups.max_num_gen_batches=10 actor_rollout_ref.actor.clip_ratio_low=0.2 actor_rollout_ref.actor.clip_ratio_high=0.28 " +
			"actor_rollout_ref.actor.clip_ratio_c=10.0 actor_rollout_ref.actor.loss_agg_mode=token-mean reward_model.reward_manager=dapo reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=256 " +
			"reward_model.overlong_buffer.penalty_factor=1.0 actor_rollout_ref.actor.ppo_mini_batch_size=32 " + verlRun,
		[]string{"filter_groups = true", `filter_metric = "env_reward"`, "[reward.components.goal]", "[reward.components.overlong]", "overlong_buffer = 256"},
	},
}

func noEnviron(string) string { return "" }

// TestImportVerlExamples checks that verl's examples become valid configurations of prompt tasks.
func TestImportVerlExamples(t *testing.T) {
	for name, c := range verlExamples {
		t.Run(name, func(t *testing.T) {
			line, err := ReadScript("python3 -m verl.trainer.main_ppo "+c.line, nil, noEnviron)
			if err != nil {
				t.Fatal(err)
			}
			r := Import(line, Options{Schema: schema, From: "test", Defaults: true})
			if r.Faults != nil {
				t.Errorf("the configuration is not valid: %v\n%s", r.Faults, r.TOML)
			}
			if r.Source != verl {
				t.Errorf("the command line is read as one of %s (%s), want %s", r.Source, r.Why, verl)
			}
			for _, row := range r.Rows {
				if row.Status == Unsupported || row.Status == Unknown || row.Status == Open {
					t.Errorf("%s=%s: %s (%s)", row.Key, row.Value, row.Status, row.Note)
				}
			}
			for _, want := range append(c.toml, `kind = "prompt"`) {
				if !slices.ContainsFunc(strings.Split(string(r.TOML), "\n"), func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("the configuration lacks %s:\n%s", want, r.TOML)
				}
			}
		})
	}
}

// TestImportNamesPromptTasks checks the names of imported tables, which must not be names of environments.
func TestImportNamesPromptTasks(t *testing.T) {
	for file, want := range map[string]string{
		"/d/gsm8k/train.parquet": "gsm8k", "train.parquet": "prompts", "/d/maze/train.parquet": "prompts", "/d/my data/train.parquet": "prompts", "/d/2024/train.parquet": "prompts",
	} {
		line, err := ReadScript("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 actor_rollout_ref.model.path=m data.truncation=error data.val_files='"+file+"' data.train_files='"+file+"'", nil, noEnviron)
		if err != nil {
			t.Fatal(err)
		}
		r := Import(line, Options{Schema: schema, From: "test"})
		cfg, err := schema.Load("test", r.TOML, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, r.TOML)
		}
		if d := cmp.Diff([]string{want, configs.KindPrompt}, []string{cfg.Env[0].Name, cfg.Env[0].Kind}); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}
