package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/env"
)

// TestMain runs the tests, or makes the test binary stand in for openmanus if the
// environment variable playProgram, realProgram or playServer is set.
func TestMain(m *testing.M) {
	if how := os.Getenv(playProgram); how != "" {
		fakeOpenmanus(how)
		return
	}
	if os.Getenv(realProgram) != "" && len(os.Args) > 1 && os.Args[1] == "train" {
		realOpenmanus()
	}
	if os.Getenv(playServer) != "" && len(os.Args) > 1 && os.Args[1] == "env" {
		fakeServer()
		return
	}
	goleak.VerifyTestMain(idle{m})
}

// idle closes idle connections before goleak counts goroutines.
type idle struct{ m *testing.M }

func (i idle) Run() int {
	defer env.CloseIdle()
	return i.m.Run()
}

// TestRefuses checks that unknown checks, unknown names and flags of other checks
// are errors before anything starts.
func TestRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"lerning": "lerning", "learning now": `"now"`, "learning --steps 3": "-steps", "learning --seeds 0": "--seeds",
		"memory": "metrics.jsonl", "memory a b": "one argument",
		"estimators ppo a2c": "ppo, grpo, rloo, reinforce_plus_plus, gigpo", "estimators ppo ppo": "twice",
		"agentgym": "git clone --recurse-submodules", "agentgym chess": "textcraft, babyai, sqlgym, weather, maze, wordle",
		"agentgym --checkout testdata": "not a checkout of AgentGym", "agentgym --episodes -1": "--episodes", "dumps --checkout .": "-checkout",
		"dumps --episodes 3": "at least 20", "entries nothing": "nothing",
		"learns chess": "arithmetic, arithmetic-ppo, arithmetic-lora, maze, textcraft, wordle", "learns maze maze": "twice", "learns --set a": "KEY=VALUE",
		"learns --model /no/such/model": "build.sh model",
		"faults --rates x":              "-rates", "faults --rates 100": "-rates", "faults --rates=-1": "-rates", "faults --rates 1,1": "twice",
		"faults --jobs 0": "--jobs", "faults --set a": "KEY=VALUE",
	} {
		if err := run(t.Context(), strings.Fields(args), t.Output(), t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}
