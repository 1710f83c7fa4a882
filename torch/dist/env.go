package dist

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Env describes this process among the processes of a run.
type Env struct {
	Rank, Size int // 0 ≤ Rank < Size

	LocalRank int // number of this process on its machine; selects its GPU
	LocalSize int // number of processes on this machine; 0 if unknown

	Host string // of rank 0, name or IP address
	Port int    // of the store on Host

	// StarterStore is true if the launcher has opened the store, as torchrun does; otherwise rank 0 opens it.
	StarterStore bool
	// Attempt distinguishes the attempts of a launcher that restarts all processes on one store; it may be empty.
	Attempt string
}

func (e Env) store() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// ReadEnv reads the environment of a process that was started as one of several. found is false if the environment describes
// no group, which is the case for a program started by hand. A variable that is empty counts as unset. The launchers are:
//
//   - torchrun, Kubernetes' PyTorchJob, and Launch: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with LOCAL_RANK and
//     LOCAL_WORLD_SIZE if several processes run on a machine. torchrun's TORCHELASTIC_USE_AGENT_STORE and
//     TORCHELASTIC_RESTART_COUNT are respected.
//   - Slurm's srun, if RANK and WORLD_SIZE are unset: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID, and the tasks per
//     node. Rank 0 is on the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, without these on
//     SLURM_LAUNCH_NODE_IPADDR. Its port follows from the numbers of job and step. MASTER_ADDR and MASTER_PORT take precedence.
//
// It is an error if variables are missing, are not numbers, or contradict each other.
func ReadEnv(getenv func(string) string) (env Env, found bool, err error) {
	v := variables{getenv: getenv}
	switch {
	case v.has("RANK") || v.has("WORLD_SIZE"):
		env = v.torchrun()
	case v.has("SLURM_PROCID") && v.has("SLURM_STEP_ID"): // a batch script has only the first: it is not one of the tasks
		env = v.slurm()
	default:
		return Env{}, false, nil
	}
	if v.errs == nil {
		if err := env.validate(); err != nil {
			v.errs = append(v.errs, err)
		}
	}
	if err := errors.Join(v.errs...); err != nil {
		return Env{}, true, err
	}
	return env, true, nil
}

// variables reads environment variables and collects their faults.
type variables struct {
	getenv func(string) string
	errs   []error
}

func (v *variables) has(name string) bool { return v.getenv(name) != "" }

func (v *variables) fail(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("dist: "+format, args...))
}

// number reads a variable; it is a fault if the variable is missing and required, or not a number.
func (v *variables) number(name string, required bool) int {
	s := v.getenv(name)
	if s == "" {
		if required {
			v.fail("the variable %s is missing", name)
		}
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		v.fail("%s is %q; want a number", name, s)
	}
	return n
}

func (v *variables) torchrun() Env {
	env := Env{
		Rank: v.number("RANK", true), Size: v.number("WORLD_SIZE", true),
		LocalRank: v.number("LOCAL_RANK", v.has("LOCAL_WORLD_SIZE")), LocalSize: v.number("LOCAL_WORLD_SIZE", false),
		Host: v.getenv("MASTER_ADDR"), Port: v.number("MASTER_PORT", true),
		StarterStore: v.getenv("TORCHELASTIC_USE_AGENT_STORE") == "True", Attempt: v.getenv("TORCHELASTIC_RESTART_COUNT"),
	}
	if env.Host == "" {
		v.fail("the variable MASTER_ADDR is missing")
	}
	return env
}

func (v *variables) slurm() Env {
	env := Env{
		Rank: v.number("SLURM_PROCID", true), Size: v.number("SLURM_NTASKS", true), LocalRank: v.number("SLURM_LOCALID", true),
		Host: v.getenv("MASTER_ADDR"),
	}
	if env.Host == "" {
		env.Host = firstHost(v.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"))
	}
	if env.Host == "" {
		env.Host = v.getenv("SLURM_LAUNCH_NODE_IPADDR")
	}
	if env.Host == "" {
		v.fail("the host of rank 0 is unknown: set MASTER_ADDR, or keep Slurm's SLURM_JOB_NODELIST")
	}
	if v.has("MASTER_PORT") {
		env.Port = v.number("MASTER_PORT", true)
	} else {
		// Below the ports that Linux gives to connections, and different for the jobs and the steps that share a machine.
		env.Port = 10000 + (v.number("SLURM_JOB_ID", true)*7+v.number("SLURM_STEP_ID", true)%7)%20000
	}
	if tasks := v.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"); tasks != "" && v.has("SLURM_NODEID") {
		n, err := tasksOn(tasks, v.number("SLURM_NODEID", true))
		if err != nil {
			v.errs = append(v.errs, err)
		}
		env.LocalSize = n
	}
	return env
}

// first returns the value of the first of the variables that is set.
func (v *variables) first(names ...string) string {
	for _, n := range names {
		if v.has(n) {
			return v.getenv(n)
		}
	}
	return ""
}

// firstHost returns the first host of a list in Slurm's notation: a[3-5,7],b is the list a3, a4, a5, a7, b.
func firstHost(list string) string {
	var host strings.Builder
	for list != "" {
		i := strings.IndexAny(list, ",[")
		if i < 0 {
			host.WriteString(list)
			break
		}
		host.WriteString(list[:i])
		if list[i] == ',' {
			break
		}
		numbers, rest, _ := strings.Cut(list[i+1:], "]")
		if end := strings.IndexAny(numbers, "-,"); end >= 0 {
			numbers = numbers[:end]
		}
		host.WriteString(numbers)
		list = rest
	}
	return host.String()
}

// tasksOn returns the number of tasks on a node from a list in Slurm's notation: 2(x3),1 is the list 2, 2, 2, 1.
func tasksOn(list string, node int) (int, error) {
	for _, part := range strings.Split(list, ",") {
		tasks, repeat, several := strings.Cut(part, "(x")
		n, err := strconv.Atoi(tasks)
		times := 1
		if several && err == nil {
			times, err = strconv.Atoi(strings.TrimSuffix(repeat, ")"))
		}
		if err != nil {
			return 0, fmt.Errorf("dist: the list of Slurm's tasks per node is %q; want a list such as 2(x3),1", list)
		}
		if node < times {
			return n, nil
		}
		node -= times
	}
	return 0, fmt.Errorf("dist: the list of Slurm's tasks per node, %q, has no node %d (SLURM_NODEID)", list, node)
}

func (e Env) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("dist: "+format, args...)) }
	if e.Size < 1 || e.Rank < 0 || e.Rank >= e.Size {
		fail("rank %d of %d processes; ranks count from 0", e.Rank, e.Size)
	}
	if e.LocalSize > e.Size {
		fail("%d processes on this machine, but %d in all", e.LocalSize, e.Size)
	}
	if e.LocalRank < 0 || e.LocalSize > 0 && e.LocalRank >= e.LocalSize {
		fail("local rank %d of %d processes on this machine; local ranks count from 0", e.LocalRank, e.LocalSize)
	}
	if e.LocalRank >= max(e.Size, 1) {
		fail("local rank %d of %d processes in all", e.LocalRank, e.Size)
	}
	if e.Host == "" || strings.Contains(e.Host, ":") && net.ParseIP(e.Host) == nil {
		fail("the address of rank 0 is %q; want a host name or an IP address, without a port", e.Host)
	}
	if e.Port < 1 || e.Port > 65535 {
		fail("the port of rank 0 is %d; want 1 to 65535", e.Port)
	}
	return errors.Join(errs...)
}

// Variables returns the environment variables that ReadEnv reads for e.
func (e Env) Variables() []string {
	vars := []string{
		"RANK=" + strconv.Itoa(e.Rank), "WORLD_SIZE=" + strconv.Itoa(e.Size),
		"LOCAL_RANK=" + strconv.Itoa(e.LocalRank), "LOCAL_WORLD_SIZE=" + strconv.Itoa(e.LocalSize),
		"MASTER_ADDR=" + e.Host, "MASTER_PORT=" + strconv.Itoa(e.Port),
	}
	if e.StarterStore {
		vars = append(vars, "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RESTART_COUNT="+e.Attempt)
	}
	return vars
}
