package algo

import (
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// TestDeviceMemory checks that the metrics of a run on a GPU report its memory and its time, and those of a run on the CPU do not.
func TestDeviceMemory(t *testing.T) {
	for _, d := range []torch.Device{{}, {Protected: true}} {
		thread, err := torch.NewThread(d)
		must(t, err)
		defer thread.Close()
		m, err := model.New(t.Context(), thread, tinyConfig(), 1, torch.Float32)
		must(t, err)
		actor, err := learner.NewActor(t.Context(), m, torch.Float32, optim.DefaultAdamW())
		must(t, err)
		defer actor.Close()
		metrics := Metrics{}
		trainer := &Trainer{core: core{Parts: Parts{Actor: actor}}}
		trainer.memory(metrics)
		must(t, trainer.deviceTime(t.Context(), metrics))
		if seconds, reported := metrics[track.DeviceTime]; reported == d.IsCPU() || reported && seconds <= 0 {
			t.Errorf("%v: the device took %v s", d, seconds)
		}
		weights := metrics[track.MemoryBytes+"/weights"]
		used, reported := metrics[track.DeviceBytes]
		if reported == d.IsCPU() || reported && (used < weights || metrics[track.DevicePeakBytes] < used) {
			t.Errorf("%v: %v bytes, peak %v, weights %v", d, used, metrics[track.DevicePeakBytes], weights)
		}
	}
}
