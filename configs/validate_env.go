package configs

import (
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data/registry"
)

// overall replaces the environment's name in metrics of the totals over all environments.
const overall = "overall"

func (c *Config) checkEnvs(fs *Faults) {
	if len(c.Env) == 0 {
		if c.Serve.Listen == "" {
			c.checkUnplayed(fs)
		}
		return
	}
	trained, val := false, false
	first, served := map[string]int{}, map[string]int{}
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if before, taken := first[e.Called()]; taken {
			fs.add(at+"label", "env.%d already has the name %s: give each table a different label, or put all tasks and servers in one [[env]] table", before, e.Called())
		} else {
			first[e.Called()] = i
		}
		if e.Label == overall {
			fs.add(at+"label", "%q is the name of the totals of all tables in metrics: choose another", overall)
		} else if e.Label != e.Name && c.environment(e.Label).Name != "" {
			fs.add(at+"label", "%q is another environment: choose another label", e.Label)
		}
		for _, url := range e.Servers {
			if before, taken := served[url]; taken && before != i {
				fs.add(at+"servers", "%s is also a server of env.%d, but instances are counted per table: give the tables different servers", url, before)
			}
			served[url] = i
		}
		trained = trained || e.Weight > 0
		val = val || len(e.ValTasks) > 0
		if len(e.Tasks) == 0 && e.Weight > 0 {
			fs.add(at+"tasks", "no tasks to train on: give an index range such as \"0-199\" or files")
		}
		if !c.checkKind(fs, at, e) {
			continue
		}
		if e.Kind == KindPrompt {
			if c.Model.Fresh.Walks > 0 {
				fs.add("model.fresh.walks", "random walks exist only in maze, not in %s: set it to 0", e.Name)
			}
			continue
		}
		if len(e.Servers) == 0 && !e.Launch && !c.environmentOf(e).Builtin && c.Data.FromDump == "" {
			start := "a checkout"
			if e.Kind == KindAgentGym {
				start = "a command"
			}
			fs.add(at+"servers", "%s has no built-in server: give the addresses of running ones, or launch = true and %s", e.Name, start)
		}
		if len(e.ExpertTasks) > 0 && !c.environmentOf(e).Builtin {
			fs.add(at+"expert_tasks", "%s has no built-in solver: give trajectories in sft.files", e.Name)
		}
		if c.Model.Fresh.Walks > 0 && e.Name != "maze" {
			fs.add("model.fresh.walks", "random walks exist only in maze, not in %s: set it to 0", e.Name)
		}
		c.checkPlayed(fs, at, e)
	}
	c.checkLaunch(fs)
	if !trained && c.Serve.Listen == "" {
		fs.add("env.0.weight", "no weight is above 0, so no environment is trained on: raise one")
	}
	val = val || len(c.SFT.ValFiles) > 0
	if !val && (c.Trainer.TestEvery > 0 || c.Trainer.ValBeforeTrain) && c.Data.FromDump == "" {
		fs.add("env.0.val_tasks", "no validation tasks: give val_tasks, or set trainer.test_every = 0 and trainer.val_before_train = false")
	}
}

// checkLaunch checks the keys of servers that the program starts.
func (c *Config) checkLaunch(fs *Faults) {
	taken := map[int]int{} // the table of each port in use
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if !e.Launch {
			continue
		}
		if len(e.Servers) > 0 {
			fs.add(at+"servers", "launch = true starts servers, so addresses are not used: take out one of the two")
		}
		if e.Checkout == "" && len(e.Command) == 0 {
			fs.add(at+"checkout", "launch = true needs the folder of AgentGym's checkout, or a command; an environment of your own needs a command")
		}
		if e.Python != "" && e.Venv != "" {
			fs.add(at+"venv", "python names the interpreter already: take out one of the two")
		}
		if e.NumServers > 1 && c.environmentOf(e).SharedAccount {
			fs.add(at+"num_servers", "launched servers of %s share one account and disturb each other's episodes: set it to 1", e.Name)
		}
		if e.BasePort+e.NumServers-1 > 65535 {
			fs.add(at+"base_port", "%d servers from port %d on exceed port 65535", e.NumServers, e.BasePort)
			continue
		}
		for port := e.BasePort; port < e.BasePort+e.NumServers; port++ {
			if other, ok := taken[port]; ok {
				fs.add(at+"base_port", "port %d is taken by a server of [[env]] table %d: choose another", port, other)
				break
			}
			taken[port] = i
		}
	}
}

// checkPlayed checks the keys of an [[env]] table that affect its episodes.
func (c *Config) checkPlayed(fs *Faults, at string, e Env) {
	if e.Instruction != "" && e.InstructionFile != "" {
		fs.add(at+"instruction", "instruction_file is set too: take out one of the two")
	}
	c.checkActionFormat(fs, at, e)
	c.checkFormat(fs, at, e)
}

// checkUnplayed checks a configuration without an environment, which is only
// valid for training from a dump and for supervised training on files.
func (c *Config) checkUnplayed(fs *Faults) {
	const add = "no environment: add a table [[env]] with name and tasks, or set serve.listen for agents in other programs (docs/serve.md)"
	switch {
	case c.Data.FromDump != "": // the dump names the environments of its episodes
		return
	case len(c.SFT.Files) == 0:
		fs.add("env", add)
		return
	case c.SFT.Epochs == 0:
		fs.add("env", add+", or set sft.epochs above 0 for `openmanus sft`, which works without one on sft.files")
		return
	}
	if c.Model.Fresh.Layers > 0 && c.Model.Fresh.Walks > 0 {
		fs.add("model.fresh.walks", "random walks need an [[env]] table for maze: set it to 0")
	}
	if len(c.SFT.ValFiles) == 0 && (c.Trainer.TestEvery > 0 || c.Trainer.ValBeforeTrain) {
		fs.add("sft.val_files", "no validation files: give some, or set trainer.test_every = 0 and trainer.val_before_train = false")
	}
}

func (c *Config) checkActionFormat(fs *Faults, at string, e Env) {
	switch {
	case c.Schema.format(e.ActionFormat).Calls:
		switch {
		case !slices.Contains(c.environmentOf(e).Calls, e.ActionFormat):
			fs.add(at+"action_format", "%s has no functions to call; environments with functions: %s; take it out", e.Name, c.environmentsThat(func(e registry.Environment) bool { return len(e.Calls) > 0 }))
		case e.Parser != "g2":
			fs.add(at+"action_format", "%q needs parser = \"g2\"", e.ActionFormat)
		case e.Format != "" && e.Format != e.ActionFormat:
			fs.add(at+"format", "%q does not go with action_format = %q: take it out", e.Format, e.ActionFormat)
		}
	case c.Schema.format(e.Format).Calls:
		fs.add(at+"format", "%q needs action_format = %q", e.Format, e.Format)
	}
}

// checkFormat checks the options of prompt formats.
func (c *Config) checkFormat(fs *Faults, at string, e Env) {
	if e.MemoryFile != "" && c.Rollout.Deterministic {
		fs.add(at+"memory_file", "its content depends on when the run was started and resumed, which conflicts with rollout.deterministic: take out one of the two")
	}
	if c.Schema.format(e.Format).Tools && !c.environmentOf(e).Tools {
		fs.add(at+"format", "%s has no tools to call; environments with tools: %s; use react or action_tags", e.Name, c.environmentsThat(func(e registry.Environment) bool { return e.Tools }))
	}
	switch {
	case !e.UseSummary:
	case c.Agent.Summary.BaseURL == "" || c.Agent.Summary.Model == "":
		fs.add(at+"use_summary", "summaries need an endpoint: give agent.summary.base_url and agent.summary.model")
	case c.Rollout.Deterministic:
		fs.add(at+"use_summary", "the summaries of an endpoint are not reproducible, which conflicts with rollout.deterministic: take out one of the two")
	}
}
