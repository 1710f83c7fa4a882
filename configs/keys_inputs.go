package configs

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data/registry"
)

// The keys of a run's inputs: the model, the environments, the data.

func (s *Schema) modelKeys() []entry {
	return slices.Concat([]entry{
		ready("model.path", "", "folder with config.json, *.safetensors and tokenizer.json, a .gguf file, a run, or the name of a model on the Hugging Face hub, which is fetched if it is missing (docs/models.md); empty: the model of [model.fresh]", anything),
		ready("model.tokenizer_path", "", "folder of the tokenizer; empty: the model's own", anything),
		ready("model.chat_template", "", "chat template in place of the model's: the text of a Jinja template, or the path of a file that ends in .jinja; empty: the model's own", anything),
		ready("model.chat_template_kwargs", nil, "variables of the chat template, such as {enable_thinking = \"false\"}; text that is JSON is passed as its value", anything),
		ready("model.device", "auto", "device of the weights; auto: the first GPU, or the CPU, with a warning if a GPU is present but unusable; naming a missing device is an error", device),
		ready("model.master_dtype", "float32", "number format of the weights that the optimiser updates", oneOf([]string{"float32"}, "bfloat16")),
		ready("model.compute_dtype", "auto", "number format of forward and backward passes; auto: bfloat16 on a GPU, float32 on a CPU", oneOf([]string{"auto", "float32", "bfloat16"})),
		ready("model.gradient_checkpointing", false, "recompute a layer's activations in the backward pass instead of storing them: the same gradients with less memory, in about a third more time", anything),
		ready("model.lora_rank", 0, "rank of the LoRA adapters, which are trained while the weights stay frozen; 0: no adapters, every weight is trained", between(0, 1024)),
		ready("model.lora_alpha", 16, "the adapters' output is scaled by lora_alpha / lora_rank", aboveTo(0, 1e6), lora),
		ready("model.lora_dropout", 0, "dropout on the adapters' inputs during training; generation and scoring use none", between(0, 0.9), lora),
		ready("model.target_modules", []string{allLinear}, "linear layers with adapters; all-linear: all except the output head", eachOf(append([]string{allLinear}, s.words.LoRATargets...)), lora),
		fixed("model.remove_padding", true, "rows are packed; padding never reaches the model"),
		moved("model.param_dtype", "write model.master_dtype"),
		later("model.override"),
		ready("model.fresh.layers", 0, "decoder layers of a new model with random weights; 0: no new model, use model.path", between(0, 64)),
	}, under(fresh,
		ready("model.fresh.hidden_size", 128, "width of the residual stream", between(8, 4096)),
		ready("model.fresh.intermediate_size", 384, "width of the feed-forward layer", between(8, 16384)),
		ready("model.fresh.heads", 4, "query heads; must divide hidden_size", between(1, 64)),
		ready("model.fresh.kv_heads", 2, "key and value heads; must divide heads", between(1, 64)),
		ready("model.fresh.vocabulary", "bytes", "bytes: one token per byte; bpe: merges learned from the environments' texts", oneOf([]string{"bytes", "bpe"})),
		ready("model.fresh.vocab_size", 512, "tokens of a bpe vocabulary", between(300, 65536), among("model.fresh.vocabulary", "bpe")),
		ready("model.fresh.walks", 0, "random walks through the training tasks that pretrain a new model, with the loss on every token; 0: no pretraining", atLeast(0)),
		ready("model.fresh.walk_turns", 12, "moves of a random walk in the pretraining text; the environment allows twice as many", between(1, 25), walks),
		ready("model.fresh.walk_batch_size", 4, "random walks per optimiser step", atLeast(1), walks),
		ready("model.fresh.walk_lr", 0.003, "learning rate of the pretraining on walks; it warms up over a twentieth of the steps and then decays by a cosine", above(0), walks),
	))
}

// allLinear in model.target_modules stands for all linear layers.
const allLinear = "all-linear"

// react is the action format that every environment supports.
const react = "react"

// labels allows names that are valid in metrics and file names.
var labels = text("empty, or letters, digits, _ and -", func(label string) string {
	if label == "" {
		return ""
	}
	if componentName(label) != "" {
		return fmt.Sprintf("%q is not allowed: a label consists of letters, digits, _ and -", label)
	}
	if _, err := strconv.Atoi(label); err == nil {
		return fmt.Sprintf("%q could be the number of a table: add a letter", label)
	}
	return ""
})

func (s *Schema) envKeys() []entry {
	calls := registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return f.Calls })
	prompting := registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return f.WritesPrompts })
	final := registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return f.Final })
	launched := on("env.launch")
	mixed := use{{"several [[env]] tables", func(c *Config, i int) bool { return len(c.Env) > 1 || c.Env[i].Weight == 0 }}}
	return []entry{
		ready("env.name", "", "name of the environment: one of `openmanus env list`, or another name for an environment of your own (docs/own-environment.md) or for prompt tasks (docs/prompt-tasks.md)", environmentName),
		ready("env.kind", "", "kind of an environment that `openmanus env list` does not list: agentgym (servers with AgentGym's protocol; the default if servers or a command are given) or prompt (tasks of one prompt and one reply, without a server)", oneOf([]string{"", KindAgentGym, KindPrompt})),
		ready("env.label", "", "name of the table in metrics, rollouts and --env; needed if several tables share an environment; empty: the environment's name", labels),
		ready("env.servers", nil, "addresses of running servers; requests go to the least loaded; empty: start the built-in server of this environment", serverURLs, played),
		ready("env.tasks", nil, "training tasks: index ranges such as \"0-199\", or parquet or JSONL files (prompt tasks: only files)", s.tasks()),
		ready("env.val_tasks", nil, "validation tasks, in the form of tasks", s.tasks()),
		ready("env.skip_tasks", nil, "indices removed from tasks and val_tasks", indices, played),
		ready("env.expert_tasks", nil, "indices whose solutions, computed by the built-in environment, are added to the SFT data", indices, withTrajectories, played),
		ready("env.weight", 1, "weight of drawing the environment's training tasks, relative to the weights of the other environments; 0: validation only", atLeast(0), mixed),
		ready("env.max_turns", 0, "maximum turns of an episode; 0: agent.max_turns", between(0, 10000), played),
		ready("env.format", "", "format in which the model writes actions; empty: action_format if it is a format that calls functions, else agent.format", oneOf(slices.Concat([]string{""}, s.Formats(), calls)), played),
		ready("env.history_length", -1, "past turns in the prompt, for the formats history and staged, which rewrite the prompt every turn; -1: agent.history_length", between(-1, 10000), among("env.format", prompting...), played),
		ready("env.use_summary", false, "in the format history, show a summary written by the endpoint of [agent.summary] instead of past turns", anything, among("env.format", "history"), played),
		ready("env.memory_file", "", "memory file of the format staged, which episodes search and to which they append the lines they store; empty: agent.memory_file", anything, among("env.format", "staged"), played),
		ready("env.final_ends", false, "end the episode at a reply that the format reads as an answer, such as <answer> or <response>, even if the server would continue", anything, among("env.format", final...), played),
		ready("env.parser", "g2", "generation of AgentGym's action parser; servers of your own get the text after Action: with g1 and g2, and the whole reply with whole", oneOf([]string{"g1", "g2", "whole"}), played),
		ready("env.action_format", react, "action format of AgentGym's client of alfworld, sciworld or webshop; the formats that call functions need parser g2 and also set env.format", oneOf(slices.Concat([]string{react}, calls)), played),
		ready("env.timeout_s", 300, "timeout of one request, or of scoring one reply to a prompt task, in seconds", aboveTo(0, 86400)),
		ready("env.create_timeout_s", 0, "timeout of creating an instance, in seconds; 0: timeout_s", between(0, 86400), played),
		ready("env.reset_timeout_s", 0, "timeout of a reset, in seconds; 0: timeout_s", between(0, 86400), played),
		ready("env.step_timeout_s", 0, "timeout of a step, in seconds; 0: timeout_s", between(0, 86400), played),
		ready("env.observe_timeout_s", 0, "timeout of an observe request, in seconds; 0: timeout_s", between(0, 86400), played),
		ready("env.close_timeout_s", 5, "timeout of closing an instance, in seconds; 0: timeout_s, but at most 5", between(0, 86400), played),
		ready("env.retries", 5, "retries of create, reset and observe; a step that was sent is never repeated", between(0, 100), played),
		ready("env.max_instances", 0, "maximum instances in use on one server; 0: the capacity of this kind of server (docs/servers.md)", atLeast(0), played),
		ready("env.max_requests", 0, "maximum concurrent requests to one server; 0: one for kinds of servers that handle one request at a time, else no limit", atLeast(0), played),
		ready("env.quarantine_after", 10, "consecutive failed requests after which a server that still answers GET / is not used for a while; a server that does not answer GET / is set aside at once", between(1, 10000), played),
		ready("env.wait_healthy_s", 120, "seconds to wait when all servers are down before the run ends; at the start one server must answer at once", aboveTo(0, 86400), played),
		ready("env.instruction", "", "text that replaces the environment's instruction; for an environment of your own the description of the environment, to which the shape of a reply is added; for prompt tasks text before the first user message; empty: the text of instruction_file, the task's instruction, or the built-in one", anything),
		ready("env.instruction_file", "", "text file that replaces the environment's instruction; empty: the task's instruction or the built-in one", anything),
		ready("env.launch", false, "start servers of this environment from a checkout of AgentGym, and stop them at the end of the run (docs/servers.md)", anything, played),
		ready("env.num_servers", 1, "number of servers to start", between(1, 1024), launched, played),
		ready("env.base_port", 36001, "port of the first server; the others use the following ports", between(1, 65535), launched, played),
		ready("env.checkout", "", "AgentGym checkout, the folder that contains agentenv-textcraft and its siblings", anything, launched, played),
		ready("env.command", nil, "command that starts one server; empty: the recipe's; {python}, {checkout}, {host} and {port} are substituted", anything, launched, played),
		ready("env.workdir", "", "working directory of the servers; empty: the recipe's", anything, launched, played),
		ready("env.environment", nil, "environment variables of the servers in addition to this program's; {checkout}, {host} and {port} are substituted", variables, launched, played),
		ready("env.python", "", "Python interpreter of the servers; empty: the one in the venv of `openmanus env install`, else python3", anything, launched, played),
		ready("env.venv", "", "virtual environment of the servers; an alternative to python", anything, launched, played),
		ready("env.start_timeout_s", 0, "seconds a server may take to start; 0: the default of this kind of server", between(0, 86400), launched, played),
		ready("env.hang_timeout_s", 120, "seconds without any answer, not even to GET /, after which a server is restarted; 0: never", between(0, 86400), launched, played),
		ready("env.recipes", "", "folder of Minecraft recipe files for the built-in textcraft; empty: the built-in recipes", anything, served("textcraft")),
		ready("env.vocabulary", "", "file of five-letter words for the built-in wordle; empty: the forty built-in words", anything, served("wordle")),
		ready("env.success_reward", 0.99, "an episode is a success if its reward is greater", registry.Finite, own),
		ready("env.deterministic", false, "equal actions after a reset give equal observations, so that an episode on a lost server can be repeated on another", anything, ownServer),
		ready("env.cumulative", false, "the reward of a step is the running score of the episode, not the reward of that step", anything, ownServer),
		ready("env.score_fn", "data_source", "score function of the replies to prompt tasks (docs/rewards.md); its score is the reward", s.promptScoreFn(), prompts),
		ready("env.score_params", nil, "parameters of score_fn as text, such as {gsm8k_method = \"flexible\"}", anything, prompts),
		ready("env.prompt_key", "", "column of the prompts of prompt tasks: text, or messages with role and content; empty: prompt, or question without a column prompt", anything, prompts),
		ready("env.answer_key", "", "column of the ground truths of prompt tasks; empty: reward_model.ground_truth, or answer without that column", anything, prompts),
		ready("env.source_key", "data_source", "column of the data sources of prompt tasks", anything, prompts),
		moved("env.server_base", "write servers = [\"http://host:port\"] in [[env]]"),
		moved("env.ports", "write servers = [\"http://host:port\"] in [[env]]"),
		moved("env.data_len", "the length of the task list is used; leave it out"),
		later("env.seed"),
		later("env.data_path"),
		later("env.available_tools"),
	}
}

var dataKeys = []entry{
	ready("data.train_limit", 0, "maximum training tasks of an environment, picked at random by data.seed; 0: all", atLeast(0), environments),
	ready("data.val_limit", 0, "maximum validation tasks of an environment, picked at random by data.seed; 0: all", atLeast(0), environments),
	ready("data.max_prompt_tokens", 4096, "maximum tokens of the first prompt of an episode", atLeast(1), environments),
	ready("data.truncation", "error", "handling of a first prompt longer than max_prompt_tokens: left, middle and right shorten its observation there and put a mark in place of the removed text; error ends the run", oneOf([]string{"left", "middle", "right", "error"}), environments, off("data.filter_overlong")),
	ready("data.filter_overlong", false, "skip tasks whose first prompt is longer than max_prompt_tokens, in training and validation; training plays the next tasks instead", anything, environments),
	ready("data.train_batch_size", 32, "tasks per step; each is played rollout.group_size times", atLeast(1)),
	ready("data.shuffle", true, "reorder the tasks every epoch", anything, drawsTasks, among("curriculum.sampler", "uniform")),
	ready("data.seed", 42, "seed of the order of tasks and of the choice under train_limit and val_limit", anything, environments),
	ready("data.from_dump", "", "dump of `openmanus rollout` to train from, without servers (docs/dumps.md); empty: play episodes", anything),
	ready("data.off_policy", false, "allow a dump whose episodes were played with other weights", anything, fromDump),
	fixed("data.prompt_key", "prompt", "column of the chat messages in data files"),
	moved("data.train_files", "write tasks = [\"FILE.parquet\"] in [[env]]"),
	moved("data.val_files", "write val_tasks = [\"FILE.parquet\"] in [[env]]"),
	moved("data.dir", "write tasks and val_tasks in [[env]]"),
	moved("data.val_batch_size", "validation plays every task of val_tasks; rollout.max_sequences bounds how many at once"),
	moved("data.keep_raw_chat", "messages are always kept; leave it out"),
}

func (s *Schema) agentKeys() []entry {
	format := inherited("format", func(c *Config, e Env) bool { return e.Format == c.Agent.Format })
	turns := inherited("max_turns", func(c *Config, e Env) bool { return e.MaxTurns == c.Agent.MaxTurns })
	prompting := registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return f.WritesPrompts })
	history := inherited("history_length and has format = "+alternatives(prompting), func(c *Config, e Env) bool {
		return s.WritesPrompts(e.Format) && e.HistoryLength == c.Agent.HistoryLength
	})
	memory := inherited(`memory_file and has format = "staged"`, func(c *Config, e Env) bool {
		return e.Format == "staged" && e.MemoryFile == c.Agent.MemoryFile
	})
	return slices.Concat([]entry{
		ready("agent.format", "action_tags", "format in which the model writes actions, unless [[env]] sets one", oneOf(s.Formats()), format),
		ready("agent.max_turns", 10, "maximum turns of an episode, unless [[env]] sets it", between(1, 10000), turns),
		ready("agent.max_obs_tokens", 1000, "maximum tokens of an observation in the prompt; 0: no limit", atLeast(0), environments),
		ready("agent.max_parse_failures", 0, "consecutive unparsable replies that end an episode; 0: never", atLeast(0), environments),
		ready("agent.max_workers", 64, "episodes played concurrently", between(1, 65536)),
		ready("agent.episode_retries", 2, "replays of an episode from its start after an infrastructure failure; after that the episode is dropped", between(0, 100), environments),
		ready("agent.episode_replays", 10, "maximum consecutive replacements of a lost instance at the reset or at one turn of an episode; the new instance repeats the actions so far, which needs a deterministic environment; in total an episode makes at most a hundred times as many replacements", between(0, 10000), environments),
		ready("agent.history_length", 2, "past turns in the prompt, for the formats history and staged, unless [[env]] sets it; the other formats show the whole conversation", between(0, 10000), history),
		ready("agent.memory_file", "", "memory file of the format staged, unless [[env]] sets one; episodes search its lines from before the start of the run; empty: an episode searches only the lines that it stored", anything, memory),
		later("agent.strategy"),
		later("agent.max_start_tokens"),
	}, under(summaries,
		ready("agent.summary.base_url", "", "OpenAI-compatible endpoint that writes summaries, such as http://127.0.0.1:8000/v1", endpointURL),
		ready("agent.summary.model", "gpt-4o", "name of the model at the endpoint", anything),
		ready("agent.summary.key_env", "OPENAI_API_KEY", "environment variable with the endpoint's API key; without a value no key is sent", keyVariable),
		ready("agent.summary.concurrency", 8, "maximum concurrent summary requests", between(1, 1024)),
		ready("agent.summary.timeout_s", 30, "timeout of one summary, in seconds", aboveTo(0, 3600)),
		ready("agent.summary.max_tokens", 300, "maximum tokens of a summary", between(1, 100000)),
		ready("agent.summary.temperature", 0.1, "sampling temperature of the summaries", between(0, 2)),
	))
}
