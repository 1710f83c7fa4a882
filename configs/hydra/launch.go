package hydra

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// launch is a command of a script that starts one of the trainers.
type launch struct {
	command Command
	line    int
}

var (
	// programs matches the names of trainers on a command line.
	programs = regexp.MustCompile(`(^|[./])(main_[a-z_0-9]*|[a-z_0-9]*sft_trainer)(\.py)?$`)
	// interpreters matches the programs that run trainers.
	interpreters = regexp.MustCompile(`^(python[0-9.]*|pypy[0-9.]*|torchrun|accelerate|deepspeed|ipython|debugpy)$`)
)

var (
	// before lists commands, such as nohup, whose arguments are the command to run.
	before = []string{"exec", "nohup", "env", "setsid", "nice", "stdbuf", "sudo", "srun", "timeout"}
	// naming lists commands whose arguments may name a program that they do not run.
	naming = []string{"echo", "printf", "logger", "pkill", "pgrep", "grep", "ps"}
)

// The function instead returns the openmanus command to use for a program
// that takes settings but does not train. For other programs it returns "".
func instead(program string) string {
	program = strings.TrimSuffix(program, ".py")
	switch name := program[strings.LastIndexAny(program, "./")+1:]; {
	case strings.HasPrefix(name, "main_generation"):
		return "openmanus generate"
	case strings.HasPrefix(name, "main_eval"):
		return "openmanus score"
	}
	return ""
}

// run records a command that starts a trainer: python3 -m with the trainer's name,
// or the path of its file. The name alone is not enough: it occurs in the names of
// folders, as in logs/main_ppo, and in pkill -f main_ppo.
func (r *reader) run(words []*syntax.Word) {
	if len(words) > 0 && slices.Contains(naming, words[0].Lit()) {
		return
	}
	interpreter, waits := false, true
	for i, word := range words {
		w := r.x.one(word)
		file := strings.HasSuffix(w.text, ".py")
		module := i > 0 && words[i-1].Lit() == "-m"
		if programs.MatchString(w.text) && !strings.ContainsAny(w.text, " \t\n") && (interpreter && (file || module) || file && waits) {
			var rest []expanded
			for _, arg := range words[i+1:] {
				rest = append(rest, r.x.fill(arg)...)
			}
			r.found = append(r.found, launch{settings(w.text, rest), int(word.Pos().Line())})
			return
		}
		// A variable without a value can be the interpreter.
		interpreter = interpreter || interpreters.MatchString(path.Base(w.text)) || waits && len(w.missing) > 0
		waits = waits && slices.Contains(before, word.Lit())
	}
}

// choose returns the first command that trains with settings, and lists the other
// commands in its Others.
func choose(found []launch) (Command, error) {
	trains := func(l launch) bool { return instead(l.command.Program) == "" }
	best := slices.IndexFunc(found, func(l launch) bool { return trains(l) && len(l.command.Overrides) > 0 })
	if best < 0 {
		best = slices.IndexFunc(found, trains)
	}
	if best < 0 {
		l := found[0]
		return Command{}, fmt.Errorf("line %d: %s does not train, and the script has no other command that trains: use %s", l.line, clip(l.command.Program), instead(l.command.Program))
	}
	c := found[best].command
	for i, l := range found {
		note := "is started too and not imported"
		if !trains(l) {
			note = "corresponds to " + instead(l.command.Program)
		}
		if i != best {
			c.Others = append(c.Others, fmt.Sprintf("line %d: %s %s; the imported command is on line %d", l.line, clip(l.command.Program), note, found[best].line))
		}
	}
	return c, nil
}
