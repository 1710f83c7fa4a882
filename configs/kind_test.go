package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data/registry"
)

// TestKinds checks which [[env]] tables are environments of a user's own.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct{ table, kind, fault string }{
		"servers":              {`name="elevator"` + "\n" + `servers=["http://a"]`, "agentgym", ""},
		"a command":            {`name="elevator"` + "\n" + `launch=true` + "\n" + `command=["run"]`, "agentgym", ""},
		"stated":               {`name="wordl"` + "\n" + `kind="agentgym"` + "\n" + `servers=["http://a"]`, "agentgym", ""},
		"known":                {`name="wordle"` + "\n" + `servers=["http://a"]`, "", ""},
		"likely a typo":        {`name="wordl"` + "\n" + `servers=["http://a"]`, "", `did you mean "wordle"?`},
		"no servers":           {`name="elevator"`, "", "needs the addresses of its servers"},
		"stated, no servers":   {`name="elevator"` + "\n" + `kind="agentgym"`, "", "env.0.servers: elevator has no built-in server"},
		"a known name":         {`name="maze"` + "\n" + `kind="agentgym"`, "", "maze is a known environment"},
		"unknown kind":         {`name="maze"` + "\n" + `kind="gym"`, "", `"gym" is not allowed`},
		"a name with a space":  {`name="my env"` + "\n" + `servers=["http://a"]`, "", "a name consists of letters"},
		"functions":            {`name="elevator"` + "\n" + `servers=["http://a"]` + "\n" + `action_format="function_calling"`, "", "has no functions to call"},
		"tools":                {`name="elevator"` + "\n" + `servers=["http://a"]` + "\n" + `format="tool_call"`, "agentgym", ""},
		"own keys":             {`name="elevator"` + "\n" + `servers=["http://a"]` + "\n" + `success_reward=0.5` + "\n" + `cumulative=true`, "agentgym", ""},
		"own keys of another":  {`name="maze"` + "\n" + `success_reward=0.5`, "", `env.0.success_reward: only used with kind = "agentgym" or "prompt"`},
		"prompt keys":          {`name="elevator"` + "\n" + `servers=["http://a"]` + "\n" + `prompt_key="q"`, "", `env.0.prompt_key: only used with kind = "prompt"`},
		"running scores, sums": {`name="elevator"` + "\n" + `servers=["http://a"]` + "\n" + `cumulative=true` + "\n[reward]\nsignal='sum'", "", "running totals"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "[model]\npath='m'\n[trainer]\ntest_every=0\nval_before_train=false\n[[env]]\ntasks='0-9'\n" + c.table + "\n"
			cfg, err := schema.Load("run.toml", []byte(text), nil)
			if c.fault == "" {
				if err != nil || cfg.Env[0].Kind != c.kind {
					t.Fatalf("kind %q, %v; want %q", cfg.Env[0].Kind, err, c.kind)
				}
				again, err := schema.Load("again", cfg.Marshal(), nil)
				if err != nil {
					t.Fatalf("the written configuration does not load: %v", err)
				}
				if d := cmp.Diff(cfg.Env, again.Env); d != "" {
					t.Error(d)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %v, want an error with %q", err, c.fault)
			}
		})
	}
}

// TestPromptTables checks the keys of prompt tasks.
func TestPromptTables(t *testing.T) {
	for name, c := range map[string]struct{ keys, fault string }{
		"default":              {``, ""},
		"messages":             {`score_fn="math"` + "\n" + `prompt_key="messages"` + "\n" + `answer_key="truth"`, ""},
		"a program":            {`score_fn="exec:./score"`, ""},
		"parameters":           {`score_fn="gsm8k"` + "\n" + `score_params={gsm8k_method="flexible", format_score="0.5"}`, ""},
		"a list":               {`score_fn="format"` + "\n" + `score_params={patterns='["a", "b"]'}`, ""},
		"an unknown parameter": {`score_fn="gsm8k"` + "\n" + `score_params={method="flexible"}`, "gsm8k has no parameter method; its parameters: format_score, gsm8k_method"},
		"a wrong value":        {`score_fn="gsm8k"` + "\n" + `score_params={gsm8k_method="lax"}`, `gsm8k_method: "lax" is not allowed`},
		"a wrong type":         {`score_fn="gsm8k"` + "\n" + `score_params={format_score="much"}`, "format_score: "},
		"a missing parameter":  {`score_fn="format"`, "patterns"},
		"no function":          {`score_fn=""`, "cannot score the reply to a prompt"},
		"the environment":      {`score_fn="goal"`, "cannot score the reply to a prompt"},
		"an unknown function":  {`score_fn="gsm9k"`, `did you mean "gsm8k"?`},
		"servers":              {`servers=["http://a"]`, "env.0.servers: only used with an environment with servers"},
		"turns":                {`max_turns=3`, "env.0.max_turns: only used with an environment with servers"},
		"a format":             {`format="react"`, "env.0.format: only used with an environment with servers"},
		"two instructions":     {`instruction="a"` + "\n" + `instruction_file="b"`, "instruction_file is set too"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "[model]\npath='m'\n[[env]]\nname='sums'\nkind='prompt'\ntasks='t.jsonl'\nval_tasks='v.parquet'\n" + c.keys + "\n"
			cfg, err := schema.Load("run.toml", []byte(text), nil)
			switch {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault == "":
				again, err := schema.Load("again", cfg.Marshal(), nil)
				if err != nil {
					t.Fatalf("the written configuration does not load: %v", err)
				}
				if d := cmp.Diff(cfg.Env, again.Env); d != "" {
					t.Error(d)
				}
			case err == nil || !strings.Contains(err.Error(), c.fault):
				t.Errorf("got %v, want an error with %q", err, c.fault)
			}
		})
	}
	_, err := schema.Load("run.toml", []byte("[model]\npath='m'\n[[env]]\nname='sums'\nkind='prompt'\ntasks='0-9'\nval_tasks='v.jsonl'\n"), nil)
	if err == nil || !strings.Contains(err.Error(), `env.0.tasks: "0-9" is not a data file`) {
		t.Errorf("a range of prompt tasks: %v", err)
	}
}

func TestScoreParams(t *testing.T) {
	got, msg := schema.ScoreParams("format", map[string]string{"patterns": `["a", "b"]`})
	if d := cmp.Diff(registry.Values{"patterns": []string{"a", "b"}}, got); d != "" || msg != "" {
		t.Error(msg, d)
	}
}
