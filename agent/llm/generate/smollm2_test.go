package generate

import (
	"context"
	"math"
	"os"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// openSmolLM2 opens the real model, or skips the test.
func openSmolLM2(t *testing.T, d torch.Device, dt torch.DType) *model.Bundle {
	t.Helper()
	const path = "../../../build/models/SmolLM2-135M-Instruct.gguf"
	if _, err := os.Stat(path); err != nil {
		t.Skip("the real model is not in build/models; ./build.sh model fetches it")
	}
	thread, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(thread.Close)
	bundle, err := model.Open(context.Background(), thread, path, model.Options{DType: dt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bundle.Close)
	return bundle
}

// TestSmolLM2Gap checks that the mean difference between the log-probs of sampling
// and of training in a real model is small. A run warns about a difference above
// rollout.max_logprob_gap.
func TestSmolLM2Gap(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a model of 135 million parameters")
	}
	const replyTokens = 32
	for _, c := range []struct {
		dt    torch.DType
		int8  bool
		limit float64
	}{{torch.Float32, false, 1e-4}, {torch.BFloat16, false, 0.05}, {torch.Float32, true, 0.15}, {torch.BFloat16, true, 0.15}} {
		device := torchtest.Device(t)
		if c.int8 && !device.IsCPU() {
			continue
		}
		bundle := openSmolLM2(t, device, c.dt)
		b := newBackend(t, bundle.Model, Options{KVTokens: 512, Int8: c.int8})
		sum, n := 0.0, 0.0
		for i, question := range []string{
			"You are in a maze. There is a wall to your right and above you. What do you do next?",
			"Give me a recipe for bread.", "What is 17 times 23? Reason step by step.",
		} {
			prompt := bundle.Tokenizer.Encode("<|im_start|>user\n"+question+"<|im_end|>\n<|im_start|>assistant\n", tokenizer.Options{})
			tokens, logps := rollout(t, b, engine.SeqID(i+1), prompt, len(prompt), replyTokens, 1)
			trained, err := bundle.Model.LogProbs(context.Background(), 1, append(prompt, tokens...))
			if err != nil {
				t.Fatal(err)
			}
			for j, lp := range trained[0][len(prompt)-1:] {
				sum += math.Abs(float64(lp - logps[j]))
				n++
			}
			b.Drop(engine.SeqID(i + 1))
		}
		t.Logf("%s, int8 %t: mean gap %.2g over %.0f tokens", c.dt, c.int8, sum/n, n)
		if !(sum/n <= c.limit) {
			t.Errorf("%s, int8 %t: the mean gap is %.3g, more than %g", c.dt, c.int8, sum/n, c.limit)
		}
	}
}
