package configs

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of what goes in: the model, the environments, the data.

var modelKeys = slices.Concat([]entry{
	ready("model.path", "folder with config.json, *.safetensors and tokenizer.json, a .gguf file, or the name of a Hugging Face hub model that is in the local cache (hf download); empty: the model of [model.fresh]", anything),
	ready("model.tokenizer_path", "folder of the tokenizer; empty: the model's own", anything),
	ready("model.device", "where the weights live; auto: the first GPU, or the CPU where none can be used, with a warning if there is one; a device that is named and not there is an error", device),
	ready("model.master_dtype", "number format of the weights that the optimiser steps", oneOf([]string{"float32"}, "bfloat16")),
	ready("model.compute_dtype", "number format of forward and backward passes; auto: bfloat16 on a GPU, float32 on a CPU", oneOf([]string{"auto", "float32", "bfloat16"})),
	ready("model.gradient_checkpointing", "compute a layer's activations again in the backward pass instead of keeping them: the same gradients from less memory, in about a third more time", anything),
	ready("model.lora_rank", "rank of the adapters that are trained while the weights stay frozen; 0: none, every weight is trained", between(0, 1024)),
	ready("model.lora_alpha", "adapters are scaled by lora_alpha / lora_rank", aboveTo(0, 1e6)),
	ready("model.lora_dropout", "share of the adapters' inputs that training drops; generation and scoring drop none", between(0, 0.9)),
	ready("model.target_modules", "linear layers that get adapters; all-linear: every one but the output head", eachOf(targetModules)),
	fixed("model.remove_padding", true, "rows are packed; padding never reaches the model"),
	moved("model.param_dtype", "write model.master_dtype"),
},
	later("model", "override"),
	[]entry{
		ready("model.fresh.layers", "decoder layers of a model made on the spot with random weights; 0: none", between(0, 64)),
		ready("model.fresh.hidden_size", "width of the residual stream", between(8, 4096)),
		ready("model.fresh.intermediate_size", "width of the feed-forward layer", between(8, 16384)),
		ready("model.fresh.heads", "query heads; divides hidden_size", between(1, 64)),
		ready("model.fresh.kv_heads", "key and value heads; divides heads", between(1, 64)),
		ready("model.fresh.vocabulary", "bytes: one token a byte; bpe: merges learned from the environments' texts", oneOf([]string{"bytes", "bpe"})),
		ready("model.fresh.vocab_size", "tokens of a bpe vocabulary", between(300, 65536)),
		ready("model.fresh.walks", "random walks from the training tasks that a new model learns to read, with the loss on every token; 0: none", atLeast(0)),
		ready("model.fresh.walk_turns", "moves of one of them that are read; the environment allows twice as many", between(1, 25)),
		ready("model.fresh.walk_batch_size", "of them per optimiser step", atLeast(1)),
		ready("model.fresh.walk_lr", "learning rate of reading; it warms up over a twentieth of the steps and falls by a cosine", above(0)),
	})

// targetModules are the layers of a decoder that can be adapted.
var targetModules = []string{allLinear, "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

const allLinear = "all-linear"

// react is the action format that every environment has.
const react = "react"

// labels are names that metrics and files can have.
var labels = registry.Range{Allowed: "empty, or letters, digits, _ and -", Check: func(v any) string {
	label := v.(string)
	if label == "" {
		return ""
	}
	if componentName(label) != "" {
		return fmt.Sprintf("%q is not allowed; a table is called by letters, digits, _ and -", label)
	}
	if _, err := strconv.Atoi(label); err == nil {
		return fmt.Sprintf("%q is the number of a table: put a letter in", label)
	}
	return ""
}}

func (s *Schema) envKeys() []entry {
	calls := registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return f.Calls })
	return slices.Concat([]entry{
		ready("env.name", "which environment", oneOf(registry.NamesOf(s.words.Environments, nil))),
		ready("env.label", "name of the table in metrics, rollouts and --env, where several are of one environment; empty: the environment's", labels),
		ready("env.servers", "addresses of running servers, used by least load; empty: the built-in server of that name is started", serverURLs),
		ready("env.tasks", "what to train on: index ranges such as \"0-199\", or parquet or JSONL files", tasks),
		ready("env.val_tasks", "what to validate on, in the same form", tasks),
		ready("env.skip_tasks", "indices left out wherever they occur in tasks and val_tasks", indices),
		ready("env.expert_tasks", "indices whose solutions by the built-in environment itself join the SFT data", indices),
		ready("env.weight", "how often its training tasks are drawn, relative to the other environments' weights; 0: it is only validated on", atLeast(0)),
		ready("env.max_turns", "turns an episode may take; 0: agent.max_turns", between(0, 10000)),
		ready("env.format", "how the model writes actions; empty: action_format if that calls functions, else agent.format", oneOf(slices.Concat([]string{""}, s.Formats(), calls))),
		ready("env.history_length", "past turns in a prompt of the formats history and staged, which write it anew every turn; -1: agent.history_length", between(-1, 10000)),
		ready("env.use_summary", "format history shows a summary of the past in place of past turns, from the endpoint of [agent.summary]", anything),
		ready("env.memory_file", "file that the format staged finds lines in and appends what it stores to; empty: agent.memory_file", anything),
		ready("env.final_ends", "a reply that the format takes for an answer, such as <answer> or <response>, ends the episode even if the server goes on", anything),
		ready("env.parser", "which generation of AgentGym's action parser", oneOf([]string{"g1", "g2"})),
		ready("env.action_format", "how AgentGym's client of alfworld, sciworld or webshop reads an action; the last two call functions, need parser g2, and are the format too", oneOf(slices.Concat([]string{react}, calls))),
		ready("env.timeout_s", "seconds one request may take", aboveTo(0, 86400)),
		ready("env.create_timeout_s", "seconds the creation of an instance may take; 0: timeout_s", between(0, 86400)),
		ready("env.reset_timeout_s", "seconds a reset may take; 0: timeout_s", between(0, 86400)),
		ready("env.step_timeout_s", "seconds a step may take; 0: timeout_s", between(0, 86400)),
		ready("env.observe_timeout_s", "seconds a question for the observation may take; 0: timeout_s", between(0, 86400)),
		ready("env.close_timeout_s", "seconds giving an instance back may take; 0: timeout_s, but at most 5", between(0, 86400)),
		ready("env.retries", "tries of create, reset and observe after the first; a sent step is never repeated", between(0, 100)),
		ready("env.max_instances", "instances in use on one server; 0: as many as servers of its kind hold (docs/servers.md)", atLeast(0)),
		ready("env.max_requests", "requests that one server is sent at a time; 0: one where servers of its kind work on one, else no limit", atLeast(0)),
		ready("env.quarantine_after", "failed requests in a row after which a server that answers GET / is left alone for a while; one that does not is at once", between(1, 10000)),
		ready("env.wait_healthy_s", "seconds that servers which are all down are waited for before the run ends; at the start one has to answer at once", aboveTo(0, 86400)),
		ready("env.instruction", "text that replaces the environment's instruction; empty: instruction_file, the task's own, or the built-in one", anything),
		ready("env.instruction_file", "text file that replaces the environment's instruction; empty: the task's own or the built-in one", anything),
		ready("env.launch", "start servers of this environment from a checkout of AgentGym, and end them with the run (docs/servers.md)", anything),
		ready("env.num_servers", "how many of them", between(1, 1024)),
		ready("env.base_port", "port of the first; the others have those after it", between(1, 65535)),
		ready("env.checkout", "folder of AgentGym that holds agentenv-textcraft and the others", anything),
		ready("env.command", "command that starts one server, instead of the recipe's; {python}, {checkout}, {host} and {port} are filled in", anything),
		ready("env.workdir", "working folder of the servers; empty: the recipe's", anything),
		ready("env.environment", "environment variables of the servers beside this program's own; {checkout}, {host} and {port} are filled in", variables),
		ready("env.python", "interpreter of the servers; empty: that of the venv that env install made, else python3", anything),
		ready("env.venv", "virtual environment of the servers, instead of python", anything),
		ready("env.start_timeout_s", "seconds a server may take until it answers; 0: as long as servers of its kind take", between(0, 86400)),
		ready("env.hang_timeout_s", "seconds after which a server that answers nothing any more, not even GET /, is started again; 0: never", between(0, 86400)),
		ready("env.recipes", "folder of Minecraft recipe files for the built-in textcraft; empty: its own book", anything),
		ready("env.vocabulary", "file of five-letter words for the built-in wordle; empty: its own forty", anything),
		moved("env.server_base", "write servers = [\"http://host:port\"] in [[env]]"),
		moved("env.ports", "write servers = [\"http://host:port\"] in [[env]]"),
		moved("env.data_len", "the length of the task list is what counts; leave it out"),
	},
		later("env", "seed data_path available_tools"))
}

var dataKeys = slices.Concat([]entry{
	ready("data.train_limit", "train on at most so many tasks of an environment, picked at random by data.seed; 0: all", atLeast(0)),
	ready("data.val_limit", "validate on at most so many tasks of an environment, picked at random by data.seed; 0: all", atLeast(0)),
	ready("data.max_prompt_tokens", "tokens a first prompt may have", atLeast(1)),
	ready("data.truncation", "what happens to a longer first prompt: its observation is shortened on that side, with a mark where text was taken out, or the run ends", oneOf([]string{"left", "middle", "right", "error"})),
	ready("data.filter_overlong", "leave out tasks with a longer first prompt, in training and validation, and play the next ones in their place", anything),
	ready("data.train_batch_size", "tasks per step; each is played rollout.group_size times", atLeast(1)),
	ready("data.shuffle", "another order of tasks every epoch", anything),
	ready("data.seed", "seed of the order of tasks, and of which are picked where there is a limit", anything),
	ready("data.from_dump", "dump of rollout to train from, without any server (docs/dumps.md); empty: episodes are played", anything),
	ready("data.off_policy", "train from a dump that other weights played", anything),
	fixed("data.prompt_key", "prompt", "column of the chat messages in data files"),
	moved("data.train_files", "write tasks = [\"FILE.parquet\"] in [[env]]"),
	moved("data.val_files", "write val_tasks = [\"FILE.parquet\"] in [[env]]"),
	moved("data.dir", "write tasks and val_tasks in [[env]]"),
	moved("data.val_batch_size", "validation plays every task of val_tasks; rollout.max_sequences bounds how many at once"),
	moved("data.keep_raw_chat", "messages are always kept; leave it out"),
})

func (s *Schema) agentKeys() []entry {
	return slices.Concat([]entry{
		ready("agent.format", "how the model writes actions, where [[env]] does not say", oneOf(s.Formats())),
		ready("agent.max_turns", "turns an episode may take, where [[env]] does not say", between(1, 10000)),
		ready("agent.max_obs_tokens", "tokens of an observation that the model sees; 0: all", atLeast(0)),
		ready("agent.max_parse_failures", "unreadable replies in a row that end an episode; 0: never", atLeast(0)),
		ready("agent.max_workers", "episodes played at once", between(1, 65536)),
		ready("agent.episode_retries", "times an episode is played again from its start after an infrastructure failure before it is dropped", between(0, 100)),
		ready("agent.episode_replays", "instances in a row that may be lost at one point of an episode, its reset or a turn, and are replaced by another, on which the actions so far are repeated; a hundred times as many in all; needs a deterministic environment, and the same observations", between(0, 10000)),
		ready("agent.history_length", "past turns in a prompt of the formats history and staged, where [[env]] does not say; all others show the whole conversation", between(0, 10000)),
		ready("agent.memory_file", "file of the format staged, where [[env]] does not say: what it held when the run began can be found by its episodes; empty: an episode remembers only itself", anything),
	},
		later("agent", "strategy max_start_tokens"),
		[]entry{
			ready("agent.summary.base_url", "OpenAI-compatible endpoint that writes summaries, such as http://127.0.0.1:8000/v1", endpointURL),
			ready("agent.summary.model", "name by which it knows the model", anything),
			ready("agent.summary.key_env", "environment variable that holds its key; none is sent if that is empty", keyVariable),
			ready("agent.summary.concurrency", "summaries asked for at once", between(1, 1024)),
			ready("agent.summary.timeout_s", "seconds one may take", aboveTo(0, 3600)),
			ready("agent.summary.max_tokens", "tokens one may have", between(1, 100000)),
			ready("agent.summary.temperature", "of its sampling", between(0, 2)),
		})
}
