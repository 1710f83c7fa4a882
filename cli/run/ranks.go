package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/shard"
)

// Join connects this process to the other processes of a run. The caller stores the result in Host.Ranks and closes it.
func Join(ctx context.Context, h *Host, at dist.Env, c configs.Dist) (*ranks.Ranks, error) {
	shareCPUs(h, at)
	h.Log.Info("joining the other processes", "rank", at.Rank, "processes", at.Size, "address", at.Host, "port", at.Port)
	g, err := dist.Join(ctx, at, Seconds(c.TimeoutS))
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !is[*dist.Error](err) { // the native libraries cannot be loaded, or the address is wrong
			return nil, errext.With(errext.Native, "", err)
		}
		return nil, errext.With(errext.Native, "start every process, with the same address of rank 0, and let them reach it", err)
	}
	r, err := ranks.New(ctx, g, at, func(err error) errext.ExitCode {
		return CodeOf(ctx, trainError(&runFolder{Folder: &rundir.Folder{}}, err))
	})
	if err != nil {
		g.Abort()
	}
	return r, errext.With(errext.Native, "", err)
}

// shareCPUs sets the number of threads to this process's share of the processors, unless OMP_NUM_THREADS is set. Under Slurm the share
// is SLURM_CPUS_PER_TASK.
func shareCPUs(h *Host, at dist.Env) {
	if h.Getenv("OMP_NUM_THREADS") != "" {
		return
	}
	if n, err := strconv.Atoi(h.Getenv("SLURM_CPUS_PER_TASK")); err == nil && n > 0 {
		torch.SetNumThreads(n)
		return
	}
	torch.SetNumThreads(max(1, runtime.NumCPU()/max(1, at.LocalSize)))
}

// onRanks makes passes over rows passes of all ranks that train. The ranks of one machine share its processors, unless the number of
// threads of a process was set, or episodes are played during updates.
func (t *training) onRanks(m *learner.MicroBatching) {
	m.Group = t.host.Ranks.Trainers()
	_, local := t.host.Ranks.Local()
	threadsSet := t.host.Getenv("OMP_NUM_THREADS") != "" || t.host.Getenv("SLURM_CPUS_PER_TASK") != ""
	if m.Group != nil && local == t.host.Ranks.Size() && !threadsSet && t.cfg.Trainer.AsyncSteps == 0 {
		m.CPUs = runtime.NumCPU()
	}
}

// rankDevice returns the device of this process. Each process of a machine uses its own GPU.
func rankDevice(h *Host, name string) (string, error) {
	local, size := h.Ranks.Local()
	named := strings.HasPrefix(name, "cuda:")
	switch {
	case named && size > 1:
		return "", errext.With(errext.Input, `set model.device to "auto" or "cuda": process N of a machine then uses its GPU N`,
			fmt.Errorf("model.device = %q is one GPU for %d processes on this machine", name, size))
	case named || name == "cpu" || local == 0:
		return name, nil
	}
	if first, err := namedDevice(name); err != nil || !first.CUDA {
		return name, err
	}
	own := "cuda:" + strconv.Itoa(local)
	_, err := torch.ParseDevice(own)
	if _, second := torch.ParseDevice("cuda:1"); second != nil { // the launcher makes only one GPU visible to each process, as Slurm can
		return name, nil
	}
	return own, errext.With(errext.Native, "start at most one process per GPU", err)
}

// decision holds the choices of rank 0 about the run folder.
type decision struct {
	Name       string // of the folder
	Began      time.Time
	Checkpoint string // name of the checkpoint's folder; "": none
	Step       int
	State      []byte // JSON
	Manifest   string // digest of the checkpoint's files
	Lengthened bool
}

// openFolder opens the run folder on rank 0, and the same folder without a lock on the other ranks, which only read it.
func openFolder(ctx context.Context, h *Host, cfg configs.Config, m mode) (*runFolder, error) {
	if h.Ranks == nil {
		return openRunFolder(ctx, h, cfg, m)
	}
	if err := sameOnAll(ctx, h, "the configuration", func() (string, error) { return eval.Digest(cfg.Marshal()), nil }); err != nil {
		return nil, err
	}
	var r *runFolder
	d, err := ranks.Share(ctx, h.Ranks, func() (d decision, err error) {
		if r, err = openRunFolder(ctx, h, cfg, m); err != nil {
			return d, err
		}
		d.Name, d.Began, d.Lengthened = filepath.Base(r.Dir), h.Now(), r.lengthened
		if r.checkpoint == nil {
			return d, nil
		}
		d.Checkpoint, d.Step = filepath.Base(r.checkpoint.Path), r.checkpoint.Step
		if d.State, err = json.Marshal(r.state); err == nil {
			d.Manifest, err = h.HashFile(r.checkpoint.File(checkpoint.ManifestFile))
		}
		return d, err
	})
	if err == nil && !h.Ranks.First() {
		r = &runFolder{Folder: newFolder(h, cfg, d.Name), lengthened: d.Lengthened}
	}
	if err == nil {
		r.began = d.Began
		err = h.Ranks.Each(ctx, func() error { return r.follow(h, d) })
	}
	if err != nil && h.Ranks.First() && r != nil {
		err = errors.Join(err, r.end(ctx, h, err))
	}
	return r, err
}

// follow opens the checkpoint that rank 0 has chosen. It returns an error if the checkpoint has other files here.
func (r *runFolder) follow(h *Host, d decision) error {
	if h.Ranks.First() {
		return nil
	}
	if _, err := h.Stat(r.Dir); err != nil {
		return errext.With(errext.Disk, "set trainer.output_dir to a folder that all machines share", fmt.Errorf("rank 0 writes the run folder %s, which is missing here: %w", r.Dir, err))
	}
	if d.Checkpoint == "" {
		return nil
	}
	r.checkpoint = &checkpoint.Checkpoint{Path: filepath.Join(r.Checkpoints(), d.Checkpoint), Step: d.Step}
	r.state = &rundir.State{}
	if err := json.Unmarshal(d.State, r.state); err != nil {
		return err
	}
	hash, err := h.HashFile(r.checkpoint.File(checkpoint.ManifestFile))
	if err == nil && hash != d.Manifest {
		err = fmt.Errorf("the checkpoint %s has other files than on rank 0", r.checkpoint.Path)
	}
	return errext.With(errext.Disk, "set trainer.output_dir to a folder that all machines share", err)
}

// sameOnAll returns an error if the value differs between the ranks. The error names it by name.
func sameOnAll(ctx context.Context, h *Host, name string, value func() (string, error)) error {
	all, err := ranks.Gather(ctx, h.Ranks, value)
	if err != nil {
		return err
	}
	for rank, v := range all {
		if v != all[0] {
			return h.Ranks.Settle(ctx, errext.With(errext.Input, "give all processes the same configuration and the same files",
				fmt.Errorf("%s of rank %d differs from that of rank 0", name, rank)))
		}
	}
	return nil
}

// onEachMachine calls f on one process of every machine and then on the others, which find the files that the first call made.
func onEachMachine(ctx context.Context, h *Host, f func() error) error {
	local, _ := h.Ranks.Local()
	for _, first := range []bool{true, false} {
		err := h.Ranks.Each(ctx, func() error {
			if h.Ranks == nil && !first || h.Ranks != nil && first != (local == 0) {
				return nil
			}
			return f()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sharedTasks calls f on rank 0 and returns its tasks on all ranks.
func sharedTasks(ctx context.Context, h *Host, f func() (map[string][]data.Task, error)) (map[string][]data.Task, error) {
	if h.Ranks == nil {
		return f()
	}
	text, err := ranks.Share(ctx, h.Ranks, func() ([]byte, error) {
		tasks, err := f()
		if err != nil {
			return nil, err
		}
		return json.Marshal(tasks)
	})
	var tasks map[string][]data.Task
	if err == nil {
		err = json.Unmarshal(text, &tasks)
	}
	return tasks, err
}

// sendWeights replaces the weights of the model by those of rank 0. They are equal before, unless the ranks have read different
// files or computed initial weights on different processors.
func (t *training) sendWeights(ctx context.Context, m *model.Model) error {
	g := t.host.Ranks.Group()
	if g == nil {
		return nil
	}
	library, err := g.Backend(ctx, m.Thread().Device())
	switch {
	case err != nil:
		return errext.With(errext.Native, "", fmt.Errorf("connect the devices of the processes: %w", err))
	case !m.Thread().Device().IsCPU() && strings.HasPrefix(library, "gloo"):
		t.host.Log.Warn("collectives are slow; start at most one process per GPU", "library", library)
	default:
		t.host.Log.Info("collectives", "library", library)
	}
	return errext.With(errext.Native, "", m.Broadcast(ctx, g))
}

// assignWorkers makes the last processes workers, which only play. With trainer.async_steps it also connects all processes a second time, for
// the goroutine that plays ahead.
func assignWorkers(ctx context.Context, h *Host, cfg configs.Config, m mode) error {
	n, timeout := cfg.Dist.RolloutProcesses, Seconds(cfg.Dist.TimeoutS)
	switch {
	case n == 0:
	case m != reinforced:
		return errext.With(errext.Input, "set dist.rollout_processes to 0", errors.New("supervised training plays no episodes for dist.rollout_processes to play"))
	default:
		if err := checkWorkers(n, h.Ranks.Size()); err != nil {
			return err
		}
		if err := h.Ranks.AssignWorkers(ctx, n, timeout); err != nil {
			return errext.With(errext.Native, "", err)
		}
	}
	if h.Ranks == nil || cfg.Trainer.AsyncSteps == 0 || m != reinforced {
		return nil
	}
	all := make([]int, h.Ranks.Size())
	for i := range all {
		all[i] = i
	}
	var err error
	h.ahead, err = h.Ranks.Connect(ctx, "ahead", all, timeout)
	return errext.With(errext.Native, "", err)
}

// checkWorkers returns an error if dist.rollout_processes leaves no process that trains.
func checkWorkers(workers, processes int) error {
	if workers == 0 || workers < processes {
		return nil
	}
	return errext.With(errext.Input, "start more processes (openmanus train --processes), or lower dist.rollout_processes",
		fmt.Errorf("dist.rollout_processes is %d, but the run has %d processes, and at least one must train", workers, processes))
}

// loadFollower loads the weights of a worker, which holds them only in the compute type.
func (t *training) loadFollower(ctx context.Context) error {
	if m := t.bundle.Model; m.DType() != t.compute && !m.HasLoRA() {
		shadow, err := m.Shadow(ctx, t.compute)
		if err != nil {
			return loadError(err)
		}
		m.Close()
		t.bundle.Model = shadow
		return nil
	}
	return loadError(t.bundle.Model.Load(ctx))
}

// load reads the weights of a deferred model and shards them over the ranks as dist.shard says. frozen models are not trained.
func (t *training) load(ctx context.Context, m *model.Model, frozen bool) error {
	g := t.host.Ranks.Trainers()
	if g == nil {
		return loadError(m.Load(ctx))
	}
	level, err := shard.ParseLevel(t.cfg.Dist.Shard)
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	return loadError(m.Shard(ctx, shard.Options{Group: g, Level: level, Compute: t.compute, Frozen: frozen}))
}

// loadError adds the exit code to an error of reading or dividing weights.
func loadError(err error) error {
	if is[*torch.Error](err) || is[*dist.Error](err) {
		return errext.With(errext.Native, "", err)
	}
	return errext.WithDefault(errext.Model, err)
}

// sharedServers divides the limits of servers that all processes use, so that the processes together respect them. If a limit is
// smaller than the number of processes, it divides the servers.
func sharedServers(h *Host, e configs.Env, spec env.Spec) (configs.Env, error) {
	rank, n := h.Ranks.Player()
	if len(e.Servers) == 0 || n == 1 || rank < 0 {
		return e, nil
	}
	e.MaxInstances = cmp.Or(e.MaxInstances, spec.MaxInstances)
	if e.MaxRequests == 0 && spec.OneAtATime {
		e.MaxRequests = 1
	}
	small := func(limit int) bool { return limit > 0 && limit < n }
	if !small(e.MaxInstances) && !small(e.MaxRequests) {
		part := func(limit int) int { return (limit + n - 1 - rank) / n }
		e.MaxInstances, e.MaxRequests = part(e.MaxInstances), part(e.MaxRequests)
		return e, nil
	}
	if len(e.Servers) < n {
		return e, errext.With(errext.Input, "add servers, raise env.max_instances and env.max_requests if the servers allow it, or start fewer processes",
			fmt.Errorf("environment %s: %d processes cannot share %d servers that accept %d instances and %d concurrent requests each (0: no limit)",
				e.Called(), n, len(e.Servers), e.MaxInstances, e.MaxRequests))
	}
	var own []string
	for i := rank; i < len(e.Servers); i += n {
		own = append(own, e.Servers[i])
	}
	e.Servers = own
	return e, nil
}

// ownPorts gives the servers of this process ports and a log folder that no other process of the machine uses.
func ownPorts(h *Host, e configs.Env, logs string) (configs.Env, string) {
	local, _ := h.Ranks.Local()
	e.BasePort += local * e.NumServers
	if r := h.Ranks.Rank(); r > 0 {
		logs = filepath.Join(logs, fmt.Sprintf("rank_%d", r))
	}
	return e, logs
}

// noSource is the rollout.Source of ranks other than 0, which receive the episodes of agents in other programs.
type noSource struct{}

func (noSource) Collect(context.Context, int, rollout.Options) ([]*data.Episode, rollout.Stats, error) {
	return nil, rollout.Stats{}, errors.New("only rank 0 serves agents")
}

// rankError adds the exit code and a hint to the error of a lost process. found is false for other errors.
func rankError(err error) (_ error, found bool) {
	if is[*ranks.Error](err) {
		return err, true
	}
	if is[*dist.Error](err) {
		return errext.With(errext.Native, "another process of the run has ended or hangs: see its output; then run the same command to resume from the last checkpoint", err), true
	}
	return err, false
}

// sameData returns a digest of the files that the configuration names. A worker does not open the reference.
func (t *training) sameData(st rundir.State) (string, error) {
	inputs := maps.Clone(st.Inputs)
	if t.host.Ranks.Workers() > 0 {
		delete(inputs, referenceInput)
	}
	text, err := json.Marshal(inputs)
	return eval.Digest(text), err
}
