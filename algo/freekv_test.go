package algo

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// device returns the device of the run.
func (r *rig) device(t *testing.T) torch.Device {
	if r.onDevice != nil {
		return *r.onDevice
	}
	return torchtest.Device(t)
}

// occupy leaves r.room bytes of the device to the run, until the returned function is called.
func (r *rig) occupy(t *testing.T, thread *torch.Thread) (free func()) {
	t.Helper()
	if r.room == 0 {
		return func() {}
	}
	return occupy(t, thread, r.room)
}

// occupy leaves a number of bytes of the thread's device to others, until the returned function is called.
func occupy(t *testing.T, thread *torch.Thread, room int64) (free func()) {
	t.Helper()
	owner := torch.NewOwner(thread, "other programs")
	must(t, torch.Run(t.Context(), thread, func(s *torch.Scope) error {
		m, err := thread.Device().Memory()
		if err == nil {
			owner.Own(s.Empty(torch.Uint8, int(m.Free-room)))
		}
		return err
	}))
	return owner.Close
}

// sampled has the tokens that a run has sampled in an episode.
type sampled struct {
	Task     string
	Sample   int
	Tokens   []int32
	LogProbs []float32
}

// sampled returns the episodes of the steps.
func (r *rig) sampled(t *testing.T) (out []sampled) {
	t.Helper()
	for step := 1; step <= r.steps; step++ {
		for _, e := range r.played(t, step) {
			out = append(out, sampled{e.Task.ID, e.Sample, e.Tokens, e.LogProbs})
		}
	}
	return out
}

// freeKVRun trains two steps on the protected device with a KV cache of kvBytes bytes, which is about as large as the tensors of an update.
func freeKVRun(t *testing.T, freeKV bool) (r *rig, kvBytes int64) {
	t.Helper()
	c := tinyConfig()
	r = newRig(t)
	r.maze = rewardByBytes(r.maze)
	r.steps, r.kvTokens, r.onDevice = 2, 1<<15, &torch.Device{Protected: true}
	r.options = func(o *Options) { o.FreeKV = freeKV }
	return r, int64(r.kvTokens * 2 * c.NumHiddenLayers * c.NumKeyValueHeads * c.HeadDim * 4)
}

// TestFreeKV trains on a device that does not hold the KV cache and an update at once. With FreeKV the run fits. Its episodes,
// metrics and weights equal those of a run that keeps the cache on a device with enough memory.
func TestFreeKV(t *testing.T) {
	kept, kvBytes := freeKVRun(t, false)
	must(t, kept.fit(t, t.Context(), t.Context()))
	peak := int64(0)
	must(t, track.Read((&rundir.Folder{Dir: kept.dir}).Metrics(), func(l track.Line) error {
		peak = max(peak, int64(l.Metrics[track.DevicePeakBytes]))
		return nil
	}))
	room := peak - kvBytes/2

	tight, _ := freeKVRun(t, false)
	tight.room = room
	err := tight.fit(t, t.Context(), t.Context())
	if e, ok := errors.AsType[*torch.Error](err); !ok || !e.OutOfMemory() {
		t.Errorf("the cache is kept in %d bytes of %d: error %v, want one that reports too little memory", room, peak, err)
	}
	freed, _ := freeKVRun(t, true)
	freed.room = room
	must(t, freed.fit(t, t.Context(), t.Context()))
	want, got := kept.result(t), freed.result(t)
	if !bytes.Equal(want.Weights, got.Weights) {
		t.Error("the weights differ from those of a run that keeps the cache")
	}
	want.Weights, got.Weights = nil, nil
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the metrics differ from those of a run that keeps the cache:\n%s", d)
	}
	episodes := kept.sampled(t)
	if d := cmp.Diff(episodes, freed.sampled(t)); d != "" {
		t.Errorf("the episodes differ from those of a run that keeps the cache:\n%s", d)
	}
	if n := 2 * 2 * 3; len(episodes) != n || kept.lines(t)[2]["actor/grad_norm"] == 0 {
		t.Errorf("%d episodes and a gradient norm of %v, want %d and not 0", len(episodes), kept.lines(t)[2]["actor/grad_norm"], n)
	}
}

// TestReserveKVFails checks the error of a run whose KV cache no longer fits after an update: it reports too little memory, instead of
// failed episodes.
func TestReserveKVFails(t *testing.T) {
	r, kvBytes := freeKVRun(t, true)
	thread, err := torch.NewThread(*r.onDevice)
	must(t, err)
	defer thread.Close()
	free := func() {}
	defer func() { free() }()
	r.onPhase = func(p Phase) {
		if p.Name == "gen" && p.Step == 2 {
			free = occupy(t, thread, kvBytes/2)
		}
	}
	err = r.fit(t, t.Context(), t.Context())
	if e, ok := errors.AsType[*torch.Error](err); !ok || !e.OutOfMemory() {
		t.Errorf("error %v, want one that reports too little memory", err)
	}
}
