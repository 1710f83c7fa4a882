package configs

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// minimal is a short valid configuration.
const minimal = `
[model]
path = "m"
[[env]]
name = "maze"
tasks = "0-9"
val_tasks = "10-12"
[[env]]
name = "textcraft"
tasks = ["0-3", "rows.parquet"]
max_turns = 7
format = "react"
`

func load(t *testing.T, text string, sets ...string) Config {
	t.Helper()
	c, err := schema.Load("run.toml", []byte(text), sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestLoadResolvesEnvironments(t *testing.T) {
	c := load(t, minimal)
	want := schema.DefaultEnv("maze")
	want.Tasks, want.ValTasks = []string{"0-9"}, []string{"10-12"}
	want.Format, want.MaxTurns = "action_tags", 10
	if diff := cmp.Diff(want, c.Env[0]); diff != "" {
		t.Errorf("maze does not inherit from [agent] (-want +got):\n%s", diff)
	}
	if e := c.Env[1]; e.Format != "react" || e.MaxTurns != 7 || len(e.Tasks) != 2 {
		t.Errorf("values of [agent] replaced values of the textcraft table: %+v", e)
	}
}

func TestLoadReportsAllFaults(t *testing.T) {
	text, err := os.ReadFile("testdata/faults.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = schema.Load("faults.toml", text, []string{
		"actor.grad_clip=-1", "trainer.seeed=3", "env.sokoban.weight=1", "rollout.group_size",
	})
	if err == nil {
		t.Fatal("no error")
	}
	// The golden file omits the lists of registered names, because new implementations change them.
	registered := regexp.MustCompile(`((?:algo.adv_estimator): .* allowed: |one of the environments: |files ending in )[^;\n]*`)
	golden(t, "faults.golden", registered.ReplaceAllString(err.Error(), "$1…")+"\n")
}

// TestActionFormat checks that a format of function calls in action_format takes precedence over agent.format.
func TestActionFormat(t *testing.T) {
	text := "[model]\npath='m'\n[agent]\nformat='history'\n[[env]]\nname='maze'\ntasks='0'\n[[env]]\nname='webshop'\nservers=['http://a']\ntasks='0'\nval_tasks='1'\naction_format='code_as_action'\n"
	c, err := schema.Load("run.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Env[1]; e.Format != "code_as_action" || e.ActionFormat != "code_as_action" {
		t.Errorf("webshop has format %q and action_format %q, want code_as_action", e.Format, e.ActionFormat)
	}
}

func TestLoadFaults(t *testing.T) {
	tests := []struct {
		name, text string
		sets       []string
		want       string // start of a line of the error
	}{
		{"syntax", "[model]\npath = = 1\n", nil, "run.toml:2: not TOML: "},
		{"duplicate key", "[log]\nlevel = 'info'\nlevel = 'warn'\n", nil, "run.toml:3: not TOML: "},
		{"no environment", "[model]\npath='m'\n", nil, "run.toml: env: no environment: add a table [[env]] with name and tasks, or set serve.listen"},
		{"no environment and no supervised training", "[model]\npath='m'\n[sft]\nfiles=['a.jsonl']\n", nil, "run.toml:4: sft.files: only used with sft.epochs above 0"},
		{"agents in other programs and tasks", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[trainer]\ntest_every=0\nval_before_train=false\n[[env]]\nname='maze'\ntasks='0'\n", nil, "run.toml:8: env.0.weight: agents in other programs"},
		{"agents in other programs and a dump", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n", []string{"data.from_dump=d.jsonl"}, "--set: data.from_dump: agents in other programs"},
		{"agents in other programs and no number of steps", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[trainer]\ntotal_steps=0\n", nil, "run.toml:6: trainer.total_steps: agents in other programs"},
		{"agents in other programs and validations of nothing", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n", nil, "run.toml: trainer.test_every: no environment"},
		{"agents in other programs and a curriculum", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[curriculum]\nsampler='success_rate'\n", nil, "run.toml:6: curriculum.sampler: agents in other programs"},
		{"agents in other programs and waves", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[rollout]\ndeterministic=true\n", nil, "run.toml:6: rollout.deterministic: agents in other programs"},
		{"agents in other programs and greedy episodes", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[algo]\nadv_estimator='remax'\n", nil, "run.toml:6: algo.adv_estimator: agents in other programs"},
		{"agents in other programs and endless replies", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[rollout]\nignore_eos=true\n", nil, "run.toml:6: rollout.ignore_eos: agents in other programs"},
		{"keys of agents without agents", "[model]\npath='m'\n[serve]\nmax_waiting=3\n[[env]]\nname='maze'\ntasks='0'\n", nil, "run.toml:4: serve.max_waiting: only used with"},
		{"episodes ahead in fixed batches", minimal, []string{"trainer.async_steps=1", "rollout.deterministic=true"}, "--set: trainer.async_steps: the progress of an update"},
		{"int8 weights of a part of the model", minimal, []string{"rollout.weight_dtype=int8", "rollout.tensor_parallel_size=2"}, "--set: rollout.weight_dtype: int8 samples with whole models"},
		{"int8 weights between the steps of an update", minimal, []string{"rollout.weight_dtype=int8", "trainer.async_steps=1"}, "--set: rollout.weight_dtype: the copies of int8 are renewed after an update"},
		{"episodes ahead of a curriculum", minimal, []string{"trainer.async_steps=1", "curriculum.failures=2"}, "--set: trainer.async_steps: the curriculum"},
		{"episodes ahead with a sharded reward model", minimal, []string{"trainer.async_steps=1", "dist.shard=weights", "dist.rollout_processes=1", "reward.score_fn=model", "reward.model_path=r"}, "--set: trainer.async_steps: with dist.shard = \"weights\" all processes run the reward model"},
		{"episodes ahead without the cache", minimal, []string{"trainer.async_steps=1", "rollout.free_cache_engine=false"}, "--set: rollout.free_cache_engine: only used with trainer.async_steps = 0"},
		{"episodes ahead of a dump", minimal, []string{"trainer.async_steps=1", "data.from_dump=d.jsonl"}, "--set: trainer.async_steps: training from data.from_dump"},
		{"episodes ahead of agents in other programs", "[model]\npath='m'\n[serve]\nlisten='127.0.0.1:0'\n[trainer]\nasync_steps=1\ntest_every=0\nval_before_train=false\n", nil, "run.toml:6: trainer.async_steps: the agents of serve.listen"},
		{"no environment for validation", "[model]\npath='m'\n[sft]\nfiles=['a.jsonl']\nepochs=1\n", nil, "run.toml:3: sft.val_files: no validation files"},
		{"no environment for walks", "[model.fresh]\nlayers=1\nwalks=3\n[sft]\nfiles=['a.jsonl']\nepochs=1\n", nil, "run.toml:3: model.fresh.walks: random walks need an [[env]]"},
		{"no model", "[[env]]\nname='maze'\n", nil, "run.toml: model.path: no model"},
		{"single env table", "\n[env]\nname='maze'\n", nil, "run.toml:2: env: environments are a list of tables: write [[env]]"},
		{"env is a value", "env = 3\n", nil, "run.toml:1: env: environments are a list of tables: write [[env]]"},
		{"a value for a section", "actor = 3\n", nil, "run.toml:1: actor: 3 is not a section: write [actor]"},
		{"a table for a value", "[trainer.seed]\nx = 1\n", nil, "run.toml:1: trainer.seed: a table has the wrong type; expected: integer"},
		{"two instructions", minimal, []string{"env.maze.instruction=Go.", "env.maze.instruction_file=go.txt"}, "--set: env.0.instruction: instruction_file is set too"},
		{"group of one with rloo", minimal, []string{"rollout.group_size=1", "algo.adv_estimator='rloo'"}, "--set: rollout.group_size: 1 is not allowed with adv_estimator rloo"},
		{"filtered groups of one", minimal, []string{"rollout.group_size=1", "algo.adv_estimator='remax'", "algo.filter_groups=true"}, "--set: algo.filter_groups: the scores of a group of one"},
		{"aggregation of a loss by row", minimal, []string{"actor.policy_loss='gspo'"}, `run.toml: actor.loss_agg: policy_loss gspo requires loss_agg = "seq-mean-token-mean"`},
		{"aggregation of luspo", minimal, []string{"actor.policy_loss='luspo'", "actor.loss_agg='seq-mean-token-mean'"}, `--set: actor.loss_agg: policy_loss luspo requires loss_agg = "seq-mean-token-sum"`},
		{"bounds without a weight between", minimal, []string{"algo.rollout_correction.rollout_is='token'", "algo.rollout_correction.rollout_is_threshold_lower=3.0"}, "--set: algo.rollout_correction.rollout_is_threshold_lower: 3 is above rollout_is_threshold 2"},
		{"gdpo with the KL in the reward", minimal, []string{"algo.adv_estimator='gdpo'", "algo.use_kl_in_reward=true"}, "--set: algo.use_kl_in_reward: gdpo compares the parts of the reward one by one"},
		{"full KL with truncated sampling", minimal, []string{"actor.use_kl_loss=true", "actor.kl_loss_type='full'", "rollout.top_p=0.9"}, "--set: actor.kl_loss_type: full needs the whole vocabulary"},
		{"dro without its penalty", minimal, []string{"actor.policy_loss='dro'"}, "run.toml: actor.dro_beta: policy_loss dro is a plain policy gradient without it"},
		{"vespo with weights of sequences", minimal, []string{"actor.policy_loss='vespo'", "algo.rollout_correction.rollout_is='sequence'"}, "--set: algo.rollout_correction.rollout_is: policy_loss vespo multiplies"},
		{"unused scale", minimal, []string{"actor.loss_scale_factor=10.0"}, `--set: actor.loss_scale_factor: only used with actor.loss_agg = "seq-mean-token-sum-norm"`},
		{"bounds of clip_cov", minimal, []string{"actor.policy_loss=clip_cov", "actor.clip_cov_lb=5.0"}, "--set: actor.clip_cov_lb: 5 is not below clip_cov_ub 5"},
		{"rules without thresholds", minimal, []string{"algo.rollout_correction.rollout_rs=['token_k3']"}, "run.toml: algo.rollout_correction.rollout_rs_threshold: 0 thresholds for 1 rules"},
		{"a threshold that is not a number", minimal, []string{"algo.rollout_correction.rollout_rs_threshold=['tight']"}, `--set: algo.rollout_correction.rollout_rs_threshold: "tight" is not allowed`},
		{"two bounds instead of one", minimal, []string{"algo.rollout_correction.rollout_rs=['token_k3']", "algo.rollout_correction.rollout_rs_threshold=['1_2']"}, `--set: algo.rollout_correction.rollout_rs_threshold: "1_2" has two bounds`},
		{"bypass_mode with another loss", minimal, []string{"algo.rollout_correction.bypass_mode=true", "actor.policy_loss='cispo'"}, `--set: algo.rollout_correction.bypass_mode: bypass_mode has its own loss (loss_type): take out actor.policy_loss = "cispo"`},
		{"weights in addition to the ratio", minimal, []string{"algo.rollout_correction.bypass_mode=true", "algo.rollout_correction.rollout_is='token'"}, "--set: algo.rollout_correction.rollout_is: with bypass_mode"},
		{"evolution with a critic", minimal, []string{"algo.name='agentevol'", "algo.adv_estimator='gae'"}, `--set: algo.adv_estimator: only used with algo.name = "policy_gradient"`},
		{"evolution with a KL", minimal, []string{"algo.name='agentevol'", "actor.use_kl_loss=true"}, `--set: actor.use_kl_loss: only used with algo.name = "policy_gradient"`},
		{"evolution with filtered groups", minimal, []string{"algo.name='agentevol'", "algo.filter_groups=true"}, `--set: algo.filter_groups: only used with algo.name = "policy_gradient"`},
		{"evolution with a score function", minimal, []string{"algo.name='agentevol'", "reward.score_fn='math'"}, `--set: reward.score_fn: only used with algo.name = "policy_gradient"`},
		{"evolution with components", minimal, []string{"algo.name='agentevol'", "reward.components.goal.weight=1"}, `--set: reward.components: only used with algo.name = "policy_gradient"`},
		{"evolution with a table of components", minimal + "[algo]\nname='agentevol'\n[reward.components.goal]\n", nil, `run.toml:15: reward.components: only used with algo.name = "policy_gradient"`},
		{"evolution with another reward", minimal, []string{"algo.name='agentevol'", "reward.signal='max'", "reward.allocation='per_turn'"}, `--set: reward.allocation: only used with algo.name = "policy_gradient"`},
		{"evolution with penalties", minimal, []string{"algo.name='agentevol'", "reward.turn_penalty=0.1", "reward.invalid_action_penalty=0.1"}, `--set: reward.invalid_action_penalty: only used with algo.name = "policy_gradient"`},
		{"evolution with a policy loss", minimal, []string{"algo.name='agentevol'", "actor.policy_loss='cispo'"}, `--set: actor.policy_loss: only used with algo.name = "policy_gradient"`},
		{"evolution with long trajectories", minimal, []string{"algo.name='agentevol'", "sft.files='a.jsonl'", "actor.dynamic_batch=true", "sft.max_length=20000"}, `run.toml: actor.max_tokens_per_micro_batch: 16384 is less than the longest trajectory`},
		{"normalized weights without weights", minimal, []string{"algo.rollout_correction.rollout_is_batch_normalize=true"}, `--set: algo.rollout_correction.rollout_is_batch_normalize: only used with algo.rollout_correction.rollout_is = "token" or "sequence"`},
		{"normalized weights of micro-batches", minimal, []string{"algo.rollout_correction.bypass_mode=true", "algo.rollout_correction.loss_type='reinforce'", "algo.rollout_correction.rollout_is='token'", "algo.rollout_correction.rollout_is_batch_normalize=true"}, "--set: algo.rollout_correction.rollout_is_batch_normalize: bypass_mode computes weights per micro-batch"},
		{"gradient checkpointing without a critic", minimal, []string{"critic.gradient_checkpointing=true"}, `--set: critic.gradient_checkpointing: only used with algo.adv_estimator = "gae"`},
		{"gradient checkpointing of a shared critic", minimal, []string{"algo.adv_estimator='gae'", "critic.shared=true", "critic.gradient_checkpointing=true"}, "--set: critic.gradient_checkpointing: a shared critic uses the actor's decoder: write model.gradient_checkpointing"},
		{"moments of a shared critic", minimal, []string{"algo.adv_estimator='gae'", "critic.shared=true", "critic.offload_optimizer=true"}, "--set: critic.offload_optimizer: the optimiser of a shared critic"},
		{"per_task without evolution", minimal, []string{"algo.agentevol.per_task=2"}, `--set: algo.agentevol.per_task: only used with algo.name = "agentevol"`},
		{"evolution from a dump", minimal, []string{"algo.name='agentevol'", "data.from_dump='d.jsonl'"}, `--set: data.from_dump: algo.name = "agentevol" plays episodes`},
		{"shuffling one mini-batch", minimal, []string{"actor.mini_batch_size=0", "actor.shuffle=true"}, "--set: actor.shuffle: only used with actor.mini_batch_size above 0"},
		{"shuffling one mini-batch of the critic", minimal, []string{"algo.adv_estimator='gae'", "critic.mini_batch_size=0", "critic.shuffle=true"}, "--set: critic.shuffle: only used with critic.mini_batch_size above 0"},
		{"no epoch", minimal, []string{"actor.ppo_epochs=0"}, "--set: actor.ppo_epochs: 0 is not allowed; allowed: from 1 to 1000"},
		{"group of one", minimal, []string{"rollout.group_size=1"}, "--set: rollout.group_size: 1 is not allowed with adv_estimator grpo"},
		{"unknown environment", "[[env]]\nname='webshpo'\n", nil, `run.toml:2: env.0.name: "webshpo" is not one of the environments: academia | `},
		{"functions of maze", "[[env]]\nname='maze'\naction_format='code_as_action'\n", nil, "run.toml:3: env.0.action_format: maze has no functions to call"},
		{"functions under g1", "[[env]]\nname='webshop'\nparser='g1'\naction_format='function_calling'\n", nil, `run.toml:4: env.0.action_format: "function_calling" needs parser = "g2"`},
		{"functions with another format", "[[env]]\nname='webshop'\nformat='react'\naction_format='function_calling'\n", nil, `run.toml:3: env.0.format: "react" does not go with action_format = "function_calling"`},
		{"two kinds of functions", "[[env]]\nname='webshop'\nformat='code_as_action'\naction_format='function_calling'\n", nil, `run.toml:3: env.0.format: "code_as_action" does not go with`},
		{"a format of functions alone", "[[env]]\nname='webshop'\nformat='function_calling'\n", nil, `run.toml:3: env.0.format: "function_calling" needs action_format = "function_calling"`},
		{"unknown action format", "[[env]]\nname='webshop'\naction_format='default'\n", nil, `run.toml:3: env.0.action_format: "default" is not allowed; allowed: react | code_as_action | function_calling`},
		{"a section of a later version", "[[env]]\nname='webshop'\n[env.webshop]\nmodel='m'\n", nil, "run.toml:3: env.0.webshop: not implemented yet: take it out"},
		{"component without a function", "[reward.components.gaol]\nweight=1\n", nil, `run.toml:1: reward.components.gaol.fn: "gaol" is not allowed; allowed: agentgym | bleu`},
		{"component without a name", "[reward.components]\nweight=1\n", nil, "run.toml:2: reward.components.weight: 1 is not a table: write [reward.components.NAME]"},
		{"component's key", "[reward.components.goal]\nwieght=1\n", nil, "run.toml:2: reward.components.goal.wieght: unknown key; did you mean reward.components.weight?"},
		{"component's parameter", "[reward.components.goal]\nmax_length=1\n", nil, `run.toml:2: reward.components.goal.max_length: only used with fn = "length" or "overlong"`},
		{"component's name", "[reward.components.'a b']\nfn='goal'\n", nil, "run.toml:1: reward.components.a b: a component is named by letters"},
		{"component's pattern", "[reward.components.format]\npatterns=['(']\n", nil, `run.toml:2: reward.components.format.patterns: "(" is not a regular expression`},
		{"component in --set", minimal, []string{"reward.components.length.max_length=5"}, "run.toml: reward.components.length.weight: "},
		{"component without a weight", "[reward.components.goal]\nweight=0\n", nil, "run.toml:2: reward.components.goal.weight: a component of weight 0 has no effect"},
		{"overlong without a buffer", "[reward.components.overlong]\nmax_length=9\n", nil, "run.toml:1: reward.components.overlong.overlong_buffer: 0 is not allowed; allowed: from 1 to max_length 9"},
		{"function and components", "[reward]\nscore_fn='math'\n[reward.components.goal]\n", nil, "run.toml:2: reward.score_fn: reward.components are set too"},
		{"function without parameters", "[reward]\nscore_fn='length'\n", nil, "run.toml:2: reward.score_fn: length needs parameters"},
		{"function's score", "[reward]\nscore_fn='math'\nformat_score=0.1\n", nil, `run.toml:3: reward.format_score: only used with reward.score_fn = "countdown", `},
		{"no command", "[reward]\nscore_fn='exec: '\n", nil, `run.toml:2: reward.score_fn: "exec:" has no command`},
		{"no address", "[reward]\nscore_fn='http://'\n", nil, `run.toml:2: reward.score_fn: "http://" is not a server's address`},
		{"rewards per turn of a score function", minimal, []string{"reward.score_fn=math", "reward.allocation=per_turn"}, "--set: reward.allocation: per_turn needs numbers per turn"},
		{"env_score of maze", minimal, []string{"reward.signal=env_score"}, "--set: reward.signal: maze keeps no score"},
		{"sum of a running score", "[[env]]\nname='sciworld'\n[reward]\nsignal='sum'\n", nil, "run.toml:4: reward.signal: the rewards of sciworld are running totals"},
		{"a name of verl", "[trainer]\nsave_freq=1\n", nil, "run.toml:2: trainer.save_freq: this key has another place here: write trainer.save_every"},
		{"a key of another section", "[trainer]\nlr=1\n", nil, "run.toml:2: trainer.lr: unknown key; did you mean actor.optim.lr?"},
		{"a section's name", "[modl]\npath='m'\n", nil, "run.toml:1: modl: unknown key; did you mean [model]?"},
		{"a section's name in another", "[actor.optm]\nlr=1\n", nil, "run.toml:1: actor.optm: unknown key; did you mean [actor.optim]?"},
		{"infinite", "[actor.optim]\nlr=inf\n", nil, "run.toml:2: actor.optim.lr: +Inf is not allowed"},
		{"date", "[trainer]\nexperiment=2026-01-01\n", nil, "run.toml:2: trainer.experiment: 2026-01-01"},
		{"a path for a folder name", "[trainer]\nexperiment='../up'\n", nil, `run.toml:2: trainer.experiment: "../up" is not allowed`},
		{"dtype of a later version", "[model]\nmaster_dtype='bfloat16'\n", nil, `run.toml:2: model.master_dtype: "bfloat16" is not implemented yet; allowed now: float32`},
		{"babyai needs servers", "[[env]]\nname='babyai'\ntasks='0'\n", nil, "run.toml:1: env.0.servers: babyai has no built-in server"},
		{"no name", "[[env]]\ntasks='0'\n", nil, `run.toml:1: env.0.name: no environment is named; allowed: academia`},
		{"vocabulary for maze", "[[env]]\nname='maze'\ntasks='0'\nvocabulary='w'\n", nil, "run.toml:4: env.0.vocabulary: only used with the built-in wordle server"},
		{"warm-up twice", minimal, []string{"actor.optim.warmup_ratio=0.1", "actor.optim.warmup_steps=3"}, "--set: actor.optim.warmup_steps: warmup_ratio is set as well"},
		{"two tables of one environment", "[[env]]\nname='maze'\ntasks='0'\n[[env]]\nname='maze'\ntasks='1'\n", nil, "run.toml:4: env.1.label: env.0 already has the name maze: "},
		{"sft without data", "[[env]]\nname='maze'\ntasks='0'\n[sft]\nepochs=1\n", nil, "run.toml:5: sft.epochs: no trajectories"},
		{"set by number", minimal, []string{"env.2.weight=1"}, "--set: env.2.weight: there is no [[env]] table 2; they are numbered 0 to 1"},
		{"set unknown env key", minimal, []string{"env.maze.wieght=1"}, "--set: env.0.wieght: unknown key; did you mean env.weight?"},
		{"fresh shape", "[model.fresh]\nlayers=2\nheads=3\n", nil, "run.toml:3: model.fresh.heads: 3 does not divide hidden_size 128"},
		{"reference without a KL", "[ref]\npath='r'\n", nil, "run.toml:2: ref.path: only used with actor.use_kl_loss = true or algo.use_kl_in_reward = true"},
		{"a KL loss with weight 0", minimal, []string{"actor.use_kl_loss=true", "actor.kl_loss_coef=0"}, "--set: actor.kl_loss_coef: the KL loss has weight 0"},
		{"adapters on random weights", "[model]\nlora_rank=4\n[model.fresh]\nlayers=2\n", nil, "run.toml:2: model.lora_rank: adapters would freeze the random weights"},
		{"dropout without adapters", "[model]\nlora_dropout=0.1\n", nil, "run.toml:2: model.lora_dropout: only used with model.lora_rank above 0"},
		{"unknown layer", "[model]\nlora_rank=4\ntarget_modules=['q_porj']\n", nil, `run.toml:3: model.target_modules: "q_porj" is not allowed`},
		{"no layers", "[model]\nlora_rank=4\ntarget_modules=[]\n", nil, "run.toml:3: model.target_modules: no layer gets an adapter"},
		{"all layers and one", "[model]\nlora_rank=4\ntarget_modules=['all-linear', 'q_proj']\n", nil, `run.toml:3: model.target_modules: "all-linear" already means every layer`},
		{"alpha 0", "[model]\nlora_rank=4\nlora_alpha=0\n", nil, "run.toml:3: model.lora_alpha: 0 is not allowed"},
		{"sft.lora_rank", "[sft]\nlora_rank=8\n", nil, "run.toml:2: sft.lora_rank: this key has another place here: write model.lora_rank"},
		{"offloading without a reference", "[ref]\noffload_params=true\n", nil, "run.toml:2: ref.offload_params: only used with actor.use_kl_loss = true"},
		{"offloading a reference that shares weights", "[model]\nlora_rank=4\n[actor]\nuse_kl_loss=true\n[ref]\noffload_params=true\n", nil, "run.toml:6: ref.offload_params: with model.lora_rank the reference shares the frozen weights"},
		{"vf_coef without a shared critic", "[algo]\nadv_estimator='gae'\n[critic]\nvf_coef=0.5\n", nil, "run.toml:4: critic.vf_coef: only used with critic.shared = true"},
		{"shared critic with weights", "[algo]\nadv_estimator='gae'\n[critic]\nshared=true\npath='c'\n", nil, "run.toml:5: critic.path: a shared critic"},
		{"shared critic of grpo", "[critic]\nshared=true\n", nil, "run.toml:2: critic.shared: only used with algo.adv_estimator = \"gae\""},
		{"value loss without weight", "[algo]\nadv_estimator='gae'\n[critic]\nshared=true\nvf_coef=0\n", nil, "run.toml:5: critic.vf_coef: 0 is not allowed"},
		{"reward model without its function", "[reward]\nmodel_path='r'\n", nil, "run.toml:2: reward.model_path: only used with the score function model"},
		{"no reward model", "[reward]\nscore_fn='model'\n", nil, "run.toml:1: reward.model_path: the score function model needs a reward model"},
		{"no reward model for a component", "[reward.components.taste]\nfn='model'\n", nil, "run.toml:1: reward.model_path: the score function model needs a reward model"},
		{"reward model twice", "[reward]\nmodel_path='r'\n[reward.components.model]\n[reward.components.taste]\nfn='model'\n", nil, "run.toml:3: reward.components: a run has one reward model"},
		{"offloading without a reward model", "[reward]\nmodel_offload_params=true\n", nil, "run.toml:2: reward.model_offload_params: only used with the score function model"},
		{"negative seed", "[trainer]\nseed=-1\n", nil, "run.toml:2: trainer.seed: -1 is not allowed; allowed: at least 0"},
		{"huge", "[actor]\nmini_batch_size=99999999999\n", nil, "run.toml:2: actor.mini_batch_size: 99999999999 is too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schema.Load("run.toml", []byte(tt.text), tt.sets)
			if err == nil {
				t.Fatal("no error")
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if strings.HasPrefix(line, tt.want) {
					return
				}
			}
			t.Errorf("no line starts with %q in:\n%v", tt.want, err)
		})
	}
}

// TestNoSuchEnvironment checks that a missing or unknown env.name is the only fault of its table.
func TestNoSuchEnvironment(t *testing.T) {
	for _, name := range []string{"", "name='sokoban'\n"} {
		_, err := schema.Load("run.toml", []byte("[model]\npath='m'\n[[env]]\n"+name+"tasks='0'\nval_tasks='1'\naction_format='function_calling'\n"), nil)
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Key != "env.0.name" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSet(t *testing.T) {
	tests := []struct {
		set  string
		got  func(Config) any
		want any
	}{
		{"actor.optim.lr=3e-5", func(c Config) any { return c.Actor.Optim.LR }, 3e-5},
		{"actor.optim.lr = 1", func(c Config) any { return c.Actor.Optim.LR }, 1.0},
		{"actor.optim.betas=[0.9, 0.95]", func(c Config) any { return c.Actor.Optim.Betas }, [2]float64{0.9, 0.95}},
		{"trainer.experiment=run 7", func(c Config) any { return c.Trainer.Experiment }, "run 7"},
		{"trainer.experiment=7", func(c Config) any { return c.Trainer.Experiment }, "7"},
		{"trainer.experiment=2026-01-01", func(c Config) any { return c.Trainer.Experiment }, "2026-01-01"},
		{"trainer.experiment='a=b'", func(c Config) any { return c.Trainer.Experiment }, "a=b"},
		{"trainer.resume=true", func(c Config) any { return c.Trainer.Resume }, "true"},
		{"actor.use_kl_loss=true", func(c Config) any { return c.Actor.UseKLLoss }, true},
		{"env.maze.tasks=3-4,9", func(c Config) any { return c.Env[0].Tasks }, []string{"3-4,9"}},
		{"env.0.tasks=5", func(c Config) any { return c.Env[0].Tasks }, []string{"5"}},
		{`env.maze.tasks=["a.jsonl","1"]`, func(c Config) any { return c.Env[0].Tasks }, []string{"a.jsonl", "1"}},
		{"env.max_turns=3", func(c Config) any { return []int{c.Env[0].MaxTurns, c.Env[1].MaxTurns} }, []int{3, 3}},
		{"env.1.max_turns=3", func(c Config) any { return []int{c.Env[0].MaxTurns, c.Env[1].MaxTurns} }, []int{10, 3}},
		{"env.textcraft.max_turns=3", func(c Config) any { return []int{c.Env[0].MaxTurns, c.Env[1].MaxTurns} }, []int{10, 3}},
		{"agent.max_turns=4", func(c Config) any { return []int{c.Env[0].MaxTurns, c.Env[1].MaxTurns} }, []int{4, 7}},
		{"model.remove_padding=true", func(c Config) any { return c.Model.Path }, "m"},
		{"algo.name=agentevol", func(c Config) any { return c.Evolves() }, true},
		{"algo.norm_by_std=false", func(c Config) any { return c.Model.Path }, "m"},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got(load(t, minimal, tt.set))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a value cannot add keys", func(t *testing.T) {
		c := load(t, minimal, "model.path=1\ny=2")
		if c.Model.Path != "1\ny=2" {
			t.Errorf("model.path is %q, want %q", c.Model.Path, "1\ny=2")
		}
	})
}

func TestLoadRefusesHugeFile(t *testing.T) {
	_, err := schema.Load("big.toml", make([]byte, maxFile+1), nil)
	var fs Faults
	if !errors.As(err, &fs) || len(fs) != 1 {
		t.Fatalf("got %v, want one fault about the size", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(minimal), "actor.optim.lr=1")
	f.Add([]byte("env = [{name='maze'}]\na.b.c = [[1,{x='''y\n'''}]]\n"), "env.0.x=[")
	f.Add([]byte("[[a]]\n[[a.b]]\n[a.b.c]\n\"x.y\"=\"\"\"\\\n\"\"\"\"\"\n"), "=")
	text, err := os.ReadFile("testdata/faults.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, "x")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		c, err := schema.Load("f", text, []string{set})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("the error has no text")
			}
			return
		}
		again, err := schema.Load("f", c.Marshal(), nil)
		if err != nil {
			t.Fatalf("the written configuration does not load: %v\n%s", err, c.Marshal())
		}
		if d := Diff(c, again); len(d) > 0 {
			t.Fatalf("Marshal and Load change the keys %v", d)
		}
	})
}

func FuzzIndexLines(f *testing.F) {
	f.Add("a = 1")
	f.Add("[[[[x = {}}]]")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		last := strings.Count(text, "\n") + 1
		for path, line := range indexLines(text) {
			if line < 1 || line > last {
				t.Fatalf("%q has line %d in a text of %d lines", path, line, last)
			}
		}
	})
}

func TestEndpoint(t *testing.T) {
	const base = "[agent]\nmax_obs_tokens=0\n[[env]]\nname='maze'\ntasks='0'\nval_tasks='1'\n[rollout]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"whole", "engine='openai'\n[rollout.api]\nbase_url='http://a/v1'\nmodel='m'\n", ""},
		{"no address", "engine='openai'\n[rollout.api]\nmodel='m'\n", "rollout.api.base_url: missing"},
		{"no name", "engine='openai'\n[rollout.api]\nbase_url='http://a/v1'\n", "rollout.api.model: missing"},
		{"bad address", "engine='openai'\n[rollout.api]\nbase_url='a:1'\nmodel='m'\n", "is not the address of an endpoint"},
		{"deterministic", "engine='openai'\ndeterministic=true\n[rollout.api]\nbase_url='http://a/v1'\nmodel='m'\n", "rollout.deterministic: the replies of an endpoint"},
		{"not used", "[rollout.api]\nbase_url='http://a/v1'\nmodel='m'\n", "rollout.api.model: only used with rollout.engine = \"openai\""},
		{"without end", "engine='openai'\nignore_eos=true\n[rollout.api]\nbase_url='http://a/v1'\nmodel='m'\n", "rollout.ignore_eos: an endpoint"},
		{"unknown", "engine='vllm'\n", "allowed: local | openai"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schema.Load("x.toml", []byte(base+tt.text), nil)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := schema.Load("x.toml", []byte(strings.Replace(base, "max_obs_tokens=0", "max_obs_tokens=9", 1)+"engine='openai'\n[rollout.api]\nbase_url='http://a/v1'\nmodel='m'\n"), nil); err == nil || !strings.Contains(err.Error(), "agent.max_obs_tokens") {
		t.Errorf("got %v, want a fault about agent.max_obs_tokens", err)
	}
}

// TestOffloadOnCPU checks that keys for a GPU, which have no effect on a CPU, are no fault.
func TestOffloadOnCPU(t *testing.T) {
	c := load(t, minimal, `model.device="cpu"`, "actor.offload_optimizer=true", "actor.use_kl_loss=true", "ref.offload_params=true",
		`reward.score_fn="model"`, `reward.model_path="r"`, "reward.model_offload_params=true",
		"algo.adv_estimator='gae'", "critic.offload_optimizer=true")
	if !c.Actor.OffloadOptimizer || !c.Critic.OffloadOptimizer || !c.Ref.OffloadParams || !c.Reward.ModelOffloadParams {
		t.Errorf("loading removed an offload key: %+v, %+v, %+v, %+v", c.Actor, c.Critic, c.Ref, c.Reward)
	}
}
