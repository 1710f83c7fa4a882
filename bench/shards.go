package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/shard"
)

// ShardJob is GRPO steps of a random float32 model on several ranks. Its memory is measured.
type ShardJob struct {
	Ranks  int    `json:"ranks"`
	Level  string `json:"level"` // name of a shard.Level
	Width  int    `json:"width"` // of the states
	Layers int    `json:"layers"`
	Vocab  int    `json:"vocab"`
	Rows   int    `json:"rows"`
	Tokens int    `json:"tokens"` // of a row
}

// shardJobs returns the default jobs: a model of 341 million parameters, as large as OPT-350M.
func shardJobs() []ShardJob {
	var list []ShardJob
	for _, ranks := range []int{1, 2, 4} {
		for _, level := range shard.Levels() {
			if ranks > 1 || level == shard.None.String() {
				list = append(list, ShardJob{Ranks: ranks, Level: level, Width: 1024, Layers: 24, Vocab: 32000, Rows: 4, Tokens: 64})
			}
		}
	}
	return list
}

func (j ShardJob) config() model.Config {
	const head = 64
	return model.Config{
		ModelType: "llama", VocabSize: j.Vocab, HiddenSize: j.Width, IntermediateSize: j.Width * 11 / 4, NumHiddenLayers: j.Layers,
		NumAttentionHeads: j.Width / head, NumKeyValueHeads: j.Width / head, HeadDim: head, MaxPositionEmbeddings: 2048, RMSNormEps: 1e-5,
		RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: .02,
	}
}

// ShardMemory is the memory of a rank, in bytes, the largest of all ranks, and the time of a step.
type ShardMemory struct {
	ShardJob
	Weights   float64 `json:"weights"`   // tensors between steps
	Moments   float64 `json:"moments"`   // tensors between steps
	Peak      float64 `json:"peak"`      // largest resident size of the process in a step, which includes gradients and activations
	Seconds   float64 `json:"seconds"`   // of the second step
	GradNorm  float64 `json:"grad_norm"` // of the second step, to compare the jobs
	NotEnough float64 `json:"not_enough,omitempty"`
}

// measureShards runs each job in processes of their own. It leaves out a job for which the machine has not enough memory.
func measureShards(ctx context.Context, jobs []ShardJob, log io.Writer) ([]ShardMemory, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out []ShardMemory
	for _, j := range jobs {
		need := j.need()
		if free, ok := torch.FreeMemory(); ok && need > float64(free) {
			fmt.Fprintf(log, "leaving out %d ranks, shards of %s: they need about %.0f GB, the machine has %.0f GB\n", j.Ranks, j.Level, need/1e9, float64(free)/1e9)
			out = append(out, ShardMemory{ShardJob: j, NotEnough: need})
			continue
		}
		fmt.Fprintf(log, "measuring %d ranks, shards of %s\n", j.Ranks, j.Level)
		text, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		var stdout bytes.Buffer
		status, err := dist.Launch(ctx, j.Ranks, dist.Command{
			Path: self, Args: []string{self, "shards", "--shards", string(text)}, Stdout: &stdout, Stderr: log, Grace: time.Second,
			Env: append([]string{"OMP_NUM_THREADS=" + strconv.Itoa(max(runtime.NumCPU()/j.Ranks, 1))}, os.Environ()...),
		}, nil)
		if err == nil && status != 0 {
			err = fmt.Errorf("%d ranks, shards of %s: exit status %d", j.Ranks, j.Level, status)
		}
		if err != nil {
			return nil, err
		}
		var m ShardMemory
		if err := json.Unmarshal(stdout.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("%d ranks, shards of %s: %w", j.Ranks, j.Level, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// need estimates the memory of all ranks of a job at the peak of a step: weights, gradients and moments of the level, a copy of
// the largest unit, and half a gigabyte.
func (j ShardJob) need() float64 {
	c := j.config()
	n, err := c.NumParameters()
	if err != nil {
		return 0
	}
	part := 1 / float64(j.Ranks)
	bytes := []float64{4 + 4 + 8, 4 + 4 + 8*part, 4 + 12*part, 16 * part}[must(shard.ParseLevel(j.Level))]
	largest := float64(8 * j.Vocab * j.Width)
	return float64(j.Ranks) * (bytes*float64(n) + largest + .5e9)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// peakMemory returns the largest resident size of this process in bytes since it was reset.
func peakMemory() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes float64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0, fmt.Errorf("VmHWM in /proc/self/status: %w", err)
	}
	return kilobytes * 1024, nil
}

// runShardRank is one rank of a job. Rank 0 writes the memory to out.
func runShardRank(ctx context.Context, j ShardJob, out io.Writer) error {
	env, found, err := dist.ReadEnv(os.Getenv)
	if err == nil && !found {
		err = errors.New("--shards needs the variables of a group of processes; `bench shards` sets them")
	}
	if err != nil {
		return err
	}
	level, err := shard.ParseLevel(j.Level)
	if err != nil {
		return err
	}
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		return err
	}
	defer th.Close()
	g, err := dist.Join(ctx, env, 10*time.Minute)
	if err != nil {
		return err
	}
	defer g.Abort()
	m, err := j.measure(ctx, th, g, level)
	if err != nil {
		return err
	}
	if g.Rank() == 0 {
		if err := json.NewEncoder(out).Encode(m); err != nil {
			return err
		}
	}
	return g.Close(ctx)
}

func (j ShardJob) measure(ctx context.Context, th *torch.Thread, g *dist.Group, level shard.Level) (out ShardMemory, err error) {
	m, err := model.New(ctx, th, j.config(), 1, torch.Float32)
	if err != nil {
		return out, err
	}
	if err := m.Shard(ctx, shard.Options{Group: g, Level: level, Compute: torch.Float32}); err != nil {
		m.Close()
		return out, err
	}
	a, err := learner.NewActor(ctx, m, torch.Float32, optim.DefaultAdamW())
	if err != nil {
		m.Close()
		return out, err
	}
	defer a.Close()
	debug.FreeOSMemory() // the random numbers of the weights
	a.SetGradientCheckpointing(true)
	o := learner.PolicyOptions{
		Micro: learner.MicroBatching{Rows: 1, Group: g}, Loss: "vanilla", Agg: loss.TokenMean, Temperature: 1, GradClip: 1,
		LossOptions: loss.Options{Params: registry.Values{"clip_ratio_low": .2, "clip_ratio_high": .2, "clip_ratio_c": 3.0}},
	}
	out.ShardJob = j
	for range 2 { // the first step allocates; the second is measured
		// Resets the peak of the resident size (proc(5)).
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			return out, fmt.Errorf("reset the peak of the memory: %w", err)
		}
		began := time.Now()
		st, err := a.UpdateActor(ctx, j.rows(), 1e-6, o)
		if err != nil {
			return out, err
		}
		out.Seconds, out.GradNorm = time.Since(began).Seconds(), st.GradNorm
	}
	out.Weights, out.Moments = a.Bytes()
	if out.Peak, err = peakMemory(); err != nil {
		return out, err
	}
	return out, largest(ctx, th, g, &out.Weights, &out.Moments, &out.Peak, &out.Seconds)
}

// largest replaces each value by the largest of all ranks.
func largest(ctx context.Context, th *torch.Thread, g *dist.Group, values ...*float64) error {
	own := make([]float64, len(values))
	for i, v := range values {
		own[i] = *v
	}
	return torch.Run(ctx, th, func(s *torch.Scope) error {
		all := s.Empty(torch.Float64, g.Size(), len(own))
		if err := g.AllGather(ctx, all, s.Float64s(own, 1, len(own))); err != nil {
			return err
		}
		for i, x := range all.ToFloat64s() {
			v := values[i%len(own)]
			*v = max(*v, x)
		}
		return nil
	})
}

// rows returns rows whose second half is sampled.
func (j ShardJob) rows() []data.Row {
	rows := make([]data.Row, j.Rows)
	for i := range rows {
		r := &rows[i]
		r.UID = fmt.Sprint("task ", i)
		r.Tokens, r.Mask = make([]int32, j.Tokens), make([]uint8, j.Tokens)
		r.Advantages, r.OldLogProbs, r.RolloutLogProbs = make([]float32, j.Tokens), make([]float32, j.Tokens), make([]float32, j.Tokens)
		for t := range r.Tokens {
			r.Tokens[t] = int32((i*7919 + t*104729) % j.Vocab)
			if t >= j.Tokens/2 {
				r.Mask[t], r.Advantages[t] = 1, float32(i%2*2-1)
			}
		}
	}
	return rows
}

// printShards writes the table of the memory of a rank.
func printShards(b *strings.Builder, list []ShardMemory) error {
	first := list[0]
	c := first.config()
	n, err := c.NumParameters()
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nGB of a rank in a GRPO step of a float32 model with %.0f million parameters, %d rows of %d tokens, gradient checkpointing\n\n", float64(n)/1e6, first.Rows, first.Tokens)
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ranks\tshards of\tweights\tmoments\tprocess, peak\tseconds\t")
	for _, m := range list {
		if m.NotEnough > 0 {
			fmt.Fprintf(w, "%d\t%s\tnot measured: the machine lacks memory\t\t\t\t\n", m.Ranks, m.Level)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t\n", m.Ranks, m.Level, m.Weights/1e9, m.Moments/1e9, m.Peak/1e9, m.Seconds)
	}
	return w.Flush()
}
