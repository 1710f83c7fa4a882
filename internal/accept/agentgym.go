package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/check"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/freeport"
	"github.com/openmanus/openmanus/internal/process"
)

// Number and limits of the episodes of an environment: few and short, but enough for
// every kind of call.
const (
	gymTasks  = 20 // number of different tasks; further episodes are further samples of these tasks
	gymTurns  = 5
	gymTokens = 48 // tokens per reply
	gymAtOnce = 8

	gymRepo = "https://github.com/WooooDyy/AgentGym"
	birdKey = "AGENTENV_SQLGYM_BIRD_PATH"

	// gymMark is an environment variable of every process that a trial starts. It
	// identifies processes that outlive the trial.
	gymMark = "OPENMANUS_ACCEPT_AGENTGYM"
	// gymPatience is the time limit for processes to exit. Watchdogs give a server
	// 3 s, but a busy machine is slower.
	gymPatience = time.Minute
	// gymLimit is the time limit of a command. The longest is an installation
	// that waits for a package registry.
	gymLimit = 20 * time.Minute
)

// gymEnvs are the environments that need only their Python packages, no data, accounts
// or other programs, with the first task to play.
var gymEnvs = []struct {
	name  string
	first int
}{{"textcraft", 0}, {"babyai", 0}, {"sqlgym", 9428}, {"weather", 0}, {"maze", 0}, {"wordle", 0}}

// AgentGym is the result for the servers of a checkout of AgentGym.
type AgentGym struct {
	Checkout string   `json:"checkout"`
	Model    string   `json:"model"`
	Runs     []GymRun `json:"runs"`
}

// GymRun is the result for one environment.
type GymRun struct {
	Env       string               `json:"env"`
	Missing   string               `json:"missing,omitempty"` // the missing part of the checkout; the environment was not tried
	Notes     []string             `json:"notes,omitempty"`   // replacements for missing data and services
	Packages  string               `json:"packages"`
	Installed float64              `json:"installed_s"` // seconds; 0 if the server was already installed
	Checks    map[check.Status]int `json:"checks"`
	Warnings  []string             `json:"warnings"` // names of the checks that warned
	Episodes  int                  `json:"episodes"`
	Dump      gymDump              `json:"dump"`
	Seconds   float64              `json:"seconds"` // duration of the rollout
	Left      []string             `json:"left,omitempty"`
	Faults    []string             `json:"faults,omitempty"`
}

func (g *AgentGym) kept() bool {
	for _, r := range g.Runs {
		if len(r.Faults) > 0 {
			return false
		}
	}
	return slices.ContainsFunc(g.Runs, func(r GymRun) bool { return r.Missing == "" })
}

// gymTrial has the settings of a check.
type gymTrial struct {
	program, checkout, model, dir string
	episodes                      int
	patience                      time.Duration
	limit                         time.Duration
	log                           io.Writer
}

func gymFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.checkout, "checkout", "", "the `FOLDER` of AgentGym, which contains agentenv-textcraft")
	f.StringVar(&o.model, "model", "build/models/SmolLM2-135M-Instruct.gguf", "the model `FILE` or folder to play with")
	f.IntVar(&o.episodes, "episodes", 20, "episodes of each environment, at least")
}

func runAgentGym(ctx context.Context, o *options, names []string, log io.Writer) (result, error) {
	if err := gymNames(names); err != nil {
		return nil, err
	}
	if o.episodes < 1 {
		return nil, errors.New("--episodes must be at least 1")
	}
	t := gymTrial{episodes: o.episodes, patience: gymPatience, limit: gymLimit, log: log}
	var err error
	if t.checkout, err = checkoutAt(o.checkout); err != nil {
		return nil, err
	}
	if t.model, err = filepath.Abs(o.model); err != nil {
		return nil, err
	}
	if t.program, err = filepath.Abs(o.program); err != nil {
		return nil, err
	}
	return inFolder(o.keep, func(dir string) (result, error) {
		t.dir = dir
		return measureAgentGym(ctx, t, names)
	})
}

// measureAgentGym tries the named environments, or all of gymEnvs if names is
// empty, one after the other. A server missing in the checkout is a fault if names
// has it; otherwise it is reported as missing.
func measureAgentGym(ctx context.Context, t gymTrial, names []string) (*AgentGym, error) {
	g := &AgentGym{Checkout: t.checkout, Model: t.model}
	for _, e := range gymEnvs {
		if len(names) > 0 && !slices.Contains(names, e.name) {
			continue
		}
		r := GymRun{Env: e.name, Checks: map[check.Status]int{}}
		venv, err := supervise.VenvIn(e.name, t.checkout)
		switch {
		case err == nil:
			err = t.try(ctx, &r, venv, e.first)
		case len(names) > 0:
			r.Faults, err = []string{err.Error()}, nil
		default:
			r.Missing, err = err.Error(), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			r.Faults = append(r.Faults, err.Error())
		}
		fmt.Fprintf(t.log, "agentgym: %s: %s\n", e.name, cmp.Or(r.Missing, strings.Join(r.Faults, "; "), "good"))
		g.Runs = append(g.Runs, r)
	}
	return g, nil
}

// try installs, checks and plays one environment. It returns an error that ends
// the trial; other faults are added to r.
func (t gymTrial) try(ctx context.Context, r *GymRun, venv string, first int) (err error) {
	dir := filepath.Join(t.dir, r.Env)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("%w: give --runs another folder", err)
	}
	mark := fmt.Sprintf("%s-%d-%d", r.Env, os.Getpid(), time.Now().UnixNano())
	environ := append(os.Environ(), gymMark+"="+mark)
	defer func() {
		r.Left = t.left(ctx, mark)
		if len(r.Left) > 0 {
			r.Faults = append(r.Faults, "processes are still running (end them with kill): "+strings.Join(r.Left, "; "))
		}
	}()
	if venv == "" {
		fmt.Fprintf(t.log, "agentgym: %s: installing\n", r.Env)
		began := time.Now()
		if _, err := t.run(ctx, environ, filepath.Join(dir, "install.log"), "env", "install", r.Env, "--checkout", t.checkout); err != nil {
			return fmt.Errorf("%w: run openmanus env install %s --checkout %s", err, r.Env, t.checkout)
		}
		r.Installed = time.Since(began).Seconds()
		if venv, err = supervise.VenvIn(r.Env, t.checkout); err != nil || venv == "" {
			return errors.Join(errors.New("env install created no virtual environment"), err)
		}
	}
	r.Packages = packagesOf(venv)
	set, err := t.standIns(ctx, r, venv, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.log, "agentgym: %s: checking\n", r.Env)
	if err := t.check(ctx, r, environ, set, dir); err != nil {
		return err
	}
	if left := t.left(ctx, mark); len(left) > 0 {
		r.Faults = append(r.Faults, "processes outlived openmanus env up, which was killed with -9: "+strings.Join(left, "; "))
	}
	fmt.Fprintf(t.log, "agentgym: %s: playing\n", r.Env)
	return t.play(ctx, r, environ, set, dir, first)
}

// standIns returns environment variables with replacements for data and services
// that a server needs but the machine lacks. It notes the replacements in r.
func (t gymTrial) standIns(ctx context.Context, r *GymRun, venv, dir string) (map[string]string, error) {
	switch r.Env {
	case "sqlgym":
		if bird := os.Getenv(birdKey); bird != "" {
			r.Notes = append(r.Notes, "BIRD from "+bird)
			return map[string]string{birdKey: bird}, nil
		}
		bird := filepath.Join(dir, "bird")
		if err := tinyBird(ctx, filepath.Join(venv, "bin", "python"), bird); err != nil {
			return nil, err
		}
		r.Notes = append(r.Notes, "BIRD is replaced by a database of two tables and twenty questions; set "+birdKey+" to use the real data")
		return map[string]string{birdKey: bird}, nil
	case "weather":
		r.Notes = append(r.Notes, "its tools have no access to the internet and report that")
		const closed = "http://127.0.0.1:9" // the discard port, on which nothing listens
		return map[string]string{"http_proxy": closed, "https_proxy": closed}, nil
	}
	return nil, nil
}

//go:embed tiny_bird.py
var tinyBirdScript string

// tinyBird writes a small database in BIRD's layout with the sqlite module of python.
func tinyBird(ctx context.Context, python, dir string) error {
	if text, err := exec.CommandContext(ctx, python, "-c", tinyBirdScript, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("make a tiny BIRD with %s: %w\n%s", python, err, text)
	}
	return nil
}

// check starts the server, checks it, and kills openmanus, after which the server
// must end as well.
func (t gymTrial) check(ctx context.Context, r *GymRun, environ []string, set map[string]string, dir string) error {
	port, err := freeport.Find(1)
	if err != nil {
		return err
	}
	args := []string{"env", "up", r.Env, "--checkout", t.checkout, "--base-port", strconv.Itoa(port), "--server-logs", filepath.Join(dir, "check-servers")}
	for name, value := range set {
		args = append(args, "--environment", name+"="+value)
	}
	up, err := startServer(ctx, environ, t.program, args...)
	if err != nil {
		return fmt.Errorf("%w: if the installation of %s is incomplete, remove its .venv and try again", err, r.Env)
	}
	out, err := t.run(ctx, environ, filepath.Join(dir, "check.log"), "env", "check", up.URL, "--env", r.Env, "--json")
	up.kill()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == checkFailed) {
		return err
	}
	var report check.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("read the report of env check: %w", err)
	}
	for _, x := range report.Results {
		r.Checks[x.Status]++
		switch x.Status {
		case check.Fail:
			r.Faults = append(r.Faults, fmt.Sprintf("env check: %s (%s): expected %s; got %s", x.Check, x.Protocol, x.Expected, x.Came))
		case check.Warn:
			r.Warnings = append(r.Warnings, x.Check)
		}
	}
	if r.Checks[check.Pass] == 0 {
		r.Faults = append(r.Faults, "env check: nothing passed")
	}
	return nil
}

// checkFailed is the exit code of openmanus if a check failed.
const checkFailed = 8

// play plays the episodes on servers that the configuration starts, and judges the
// dump.
func (t gymTrial) play(ctx context.Context, r *GymRun, environ []string, set map[string]string, dir string, first int) error {
	port, err := freeport.Find(1)
	if err != nil {
		return err
	}
	tasks := min(gymTasks, t.episodes)
	indices := fmt.Sprintf("%d-%d", first, first+tasks-1)
	samples := (t.episodes + tasks - 1) / tasks
	r.Episodes = tasks * samples
	config, dump := filepath.Join(dir, "config.toml"), filepath.Join(dir, "episodes.jsonl")
	err = writeConfig(config, map[string]any{
		"model": map[string]any{"path": t.model},
		"env": []map[string]any{{
			"name": r.Env, "tasks": indices, "val_tasks": indices, "max_turns": gymTurns,
			"launch": true, "checkout": t.checkout, "base_port": port, "environment": set,
		}},
	})
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = t.run(ctx, environ, filepath.Join(dir, "rollout.log"), "rollout", config, "--samples", strconv.Itoa(samples),
		"--max-new-tokens", strconv.Itoa(gymTokens), "--concurrency", strconv.Itoa(gymAtOnce), "--dump", dump,
		"--server-logs", filepath.Join(dir, "servers"), "--max-lost", "0.99", "--quiet") // the dump is judged episode by episode
	r.Seconds = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	_, episodes, err := readDump(dump)
	if err != nil {
		return err
	}
	var faults []string
	r.Dump, faults = judgeDump(r.Env, episodes, r.Episodes)
	r.Faults = append(r.Faults, faults...)
	return nil
}

func writeConfig(path string, config map[string]any) error {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(config); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// run runs openmanus, writes its stderr to the file log and returns its stdout.
// The error of a failed run has the last lines of the file.
func (t gymTrial) run(ctx context.Context, environ []string, log string, args ...string) ([]byte, error) {
	words, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("timeout after %v", t.limit))
	defer cancel()
	cmd := process.Command(ctx, t.program, args...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, words
	err = cmd.Run()
	if closeErr := words.Close(); closeErr != nil {
		return nil, closeErr
	}
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	text, readErr := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return out.Bytes(), errors.Join(fmt.Errorf("openmanus %s: %w: %s (%s)", strings.Join(args[:2], " "), err, strings.Join(lines[max(0, len(lines)-3):], " | "), log), readErr)
}

// left waits until no process has the given mark in its environment. It
// returns the processes that still have the mark after t.patience.
func (t gymTrial) left(ctx context.Context, mark string) (left []string) {
	var pids []int
	for end := time.Now().Add(t.patience); ; {
		if pids = supervise.Marked(gymMark, mark); len(pids) == 0 || ctx.Err() != nil || time.Now().After(end) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // the process has exited
		}
		left = append(left, fmt.Sprintf("%d: %s", pid, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))))
	}
	return left
}

// packagesOf returns the versions of the packages that determine the HTTP
// behaviour of a server.
func packagesOf(venv string) string {
	var found []string
	for _, name := range []string{"fastapi", "pydantic", "uvicorn"} {
		dirs, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages", name+"-*.dist-info"))
		if err == nil && len(dirs) == 1 {
			found = append(found, strings.Replace(strings.TrimSuffix(filepath.Base(dirs[0]), ".dist-info"), "-", " ", 1))
		}
	}
	return strings.Join(found, ", ")
}

// checkoutAt returns the absolute path of a checkout of AgentGym.
func checkoutAt(path string) (string, error) {
	const get = "; get it with git clone --recurse-submodules " + gymRepo
	if path == "" {
		return "", errors.New("agentgym needs --checkout, the folder of AgentGym" + get)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if found, err := filepath.Glob(filepath.Join(abs, "agentenv-*")); err != nil || len(found) == 0 {
		return "", fmt.Errorf("%s is not a checkout of AgentGym: it has no folder agentenv-…%s", abs, get)
	}
	return abs, nil
}

// gymNames returns an error for names that are not in gymEnvs.
func gymNames(names []string) error {
	var known []string
	for _, e := range gymEnvs {
		known = append(known, e.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("agentgym cannot try %s; it can try %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// outcomes lists the outcomes of episodes, most frequent first.
func (d gymDump) outcomes() string {
	var names []data.Outcome
	for o := range d.Outcomes {
		names = append(names, o)
	}
	slices.SortFunc(names, func(a, b data.Outcome) int {
		return cmp.Or(d.Outcomes[b]-d.Outcomes[a], strings.Compare(string(a), string(b)))
	})
	var parts []string
	for _, o := range names {
		parts = append(parts, fmt.Sprintf("%d %s", d.Outcomes[o], o))
	}
	return strings.Join(parts, ", ")
}
