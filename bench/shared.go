package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
)

// sharedAim is the aim of decoding on a shared machine: with the share x of the CPU, sharedAim·x of the rate on a quiet machine.
const sharedAim = 0.7

// Shared is the speed of decoding beside busy processes.
type Shared struct {
	Model     string       `json:"model"`
	Processes int          `json:"processes"` // busy ones, of equal priority
	CPUs      int          `json:"cpus"`
	Rows      []*SharedRow `json:"rows"`
}

// SharedRow compares one job on the quiet and on the loaded machine. Every value is the median of the rounds.
type SharedRow struct {
	Job         Job         `json:"job"`
	DType       string      `json:"dtype"`
	Quiet       float64     `json:"quiet"`  // tokens/s
	Loaded      float64     `json:"loaded"` // tokens/s
	QuietShare  float64     `json:"quiet_share"`
	LoadedShare float64     `json:"loaded_share"` // CPU time of this process / (time · CPUs)
	Quotient    float64     `json:"quotient"`     // loaded / quiet
	Reached     bool        `json:"reached"`      // Quotient is at least sharedAim · LoadedShare
	QuietRuns   []SharedRun `json:"quiet_runs"`
	LoadedRuns  []SharedRun `json:"loaded_runs"`
}

// SharedRun is one run of a job.
type SharedRun struct {
	Rate  float64 `json:"rate"`  // tokens/s
	Share float64 `json:"share"` // of the CPU
}

// sharedJobs returns the jobs, which are short because they are several times slower on a loaded machine.
func sharedJobs() []Job {
	const context = 16
	return []Job{
		{Name: "decode, 1 row", Kind: Decode, Batch: 1, Context: context, New: 48},
		{Name: "decode, 8 rows", Kind: Decode, Batch: 8, Context: context, New: 24},
		{Name: "decode, 32 rows", Kind: Decode, Batch: 32, Context: context, New: 12},
	}
}

// smolLM2 has the shape of SmolLM2-135M.
func smolLM2() model.Config {
	return model.Config{
		ModelType: "llama", VocabSize: 49152, HiddenSize: 576, IntermediateSize: 1536, NumHiddenLayers: 30, NumAttentionHeads: 9,
		NumKeyValueHeads: 3, HeadDim: 64, MaxPositionEmbeddings: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
		InitializerRange: .04,
	}
}

// measureShared runs every job alternately on the quiet and on the loaded machine.
func measureShared(ctx context.Context, o options, log io.Writer) (*Shared, error) {
	s := &Shared{Model: o.model, Processes: o.busy, CPUs: runtime.NumCPU()}
	if _, err := os.Stat(o.model); errors.Is(err, os.ErrNotExist) {
		s.Model = "a random model of its shape, since " + o.model + " does not exist"
		dir, err := os.MkdirTemp("", "openmanus-model-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if err := saveRandom(ctx, smolLM2(), dir); err != nil {
			return nil, err
		}
		o.model = dir
	}
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		if err := s.measure(ctx, o, dt, log); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// saveRandom writes a random model to dir.
func saveRandom(ctx context.Context, c model.Config, dir string) error {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		return err
	}
	defer th.Close()
	m, err := model.New(ctx, th, c, 1, torch.BFloat16)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.SaveWeights(ctx, dir, torch.BFloat16)
}

// measure measures the rows of one type.
func (s *Shared) measure(ctx context.Context, o options, dt torch.DType, log io.Writer) error {
	jobs := sharedJobs()
	ours, err := OpenOurs(ctx, o.model, "cpu", dt, jobs)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	for _, j := range jobs {
		fmt.Fprintf(log, "measuring %s, %v\n", j.Name, dt)
		if _, err := ours.Run(ctx, j); err != nil { // warms up
			return err
		}
		r := &SharedRow{Job: j, DType: dt.String()}
		s.Rows = append(s.Rows, r)
		for range o.rounds {
			run, err := ours.shared(ctx, j, 0)
			if err != nil {
				return err
			}
			r.QuietRuns = append(r.QuietRuns, run)
			if run, err = ours.shared(ctx, j, o.busy); err != nil {
				return err
			}
			r.LoadedRuns = append(r.LoadedRuns, run)
		}
		r.judge()
	}
	return nil
}

// shared runs a job beside n busy processes.
func (o *Ours) shared(ctx context.Context, j Job, n int) (SharedRun, error) {
	stop, err := startBusy(ctx, n)
	if err != nil {
		return SharedRun{}, err
	}
	defer stop()
	took, err := o.Run(ctx, j)
	if err != nil {
		return SharedRun{}, err
	}
	tokens, _ := j.Units()
	return SharedRun{Rate: float64(tokens) / took.Seconds(), Share: o.cpu.Seconds() / took.Seconds() / float64(runtime.NumCPU())}, nil
}

// judge computes the medians and the verdict.
func (r *SharedRow) judge() {
	r.Quiet, r.QuietShare = medians(r.QuietRuns)
	r.Loaded, r.LoadedShare = medians(r.LoadedRuns)
	r.Quotient = r.Loaded / r.Quiet
	r.Reached = r.Quotient >= sharedAim*r.LoadedShare
}

// medians returns the medians of the rate and of the share.
func medians(runs []SharedRun) (rate, share float64) {
	median := func(value func(SharedRun) float64) float64 {
		var vs []float64
		for _, r := range runs {
			vs = append(vs, value(r))
		}
		slices.Sort(vs)
		return (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	}
	return median(func(r SharedRun) float64 { return r.Rate }), median(func(r SharedRun) float64 { return r.Share })
}

// busyByDefault is the number of busy processes that leave about 30 % of the CPU to one thread on every CPU.
func busyByDefault() int { return (5*runtime.NumCPU() + 1) / 2 }

// startBusy starts n busy processes, which run until stop.
func startBusy(ctx context.Context, n int) (stop func(), err error) {
	var cmds []*exec.Cmd
	stop = func() {
		for _, c := range cmds {
			_ = c.Process.Kill() // fails only if it has ended
			_ = c.Wait()         // reports the signal
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		c := exec.CommandContext(ctx, self, "shared", "--be-busy")
		if _, err = c.StdinPipe(); err == nil { // its end stops the process if this one is killed
			err = c.Start()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("start a busy process: %w", err)
		}
		cmds = append(cmds, c)
	}
	if n > 0 {
		time.Sleep(200 * time.Millisecond) // until the scheduler has spread them over the CPUs
	}
	return stop, nil
}

// beBusy uses one CPU until in ends.
func beBusy(in io.Reader) (err error) {
	var ended atomic.Bool
	go func() {
		_, err = io.Copy(io.Discard, in)
		ended.Store(true)
	}()
	for !ended.Load() {
	}
	return err
}

func (s *Shared) print(b *strings.Builder, threads, rounds int) error {
	fmt.Fprintf(b, "\n%s\n%d threads on %d CPUs, beside %d busy processes of equal priority, medians of %d rounds\n\n", s.Model, threads, s.CPUs, s.Processes, rounds)
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\tquiet tokens/s\tloaded\tloaded / quiet\tCPU share x (quiet)\t(loaded / quiet) / x\tat least %.1f\n", sharedAim)
	for _, r := range s.Rows {
		verdict := "yes"
		if !r.Reached {
			verdict = "NO"
		}
		fmt.Fprintf(w, "%s, %s\t%.1f\t%.1f\t%.3f\t%.3f (%.3f)\t%.2f\t%s\n", r.Job.Name, r.DType, r.Quiet, r.Loaded, r.Quotient, r.LoadedShare, r.QuietShare, r.Quotient/r.LoadedShare, verdict)
	}
	return w.Flush()
}
