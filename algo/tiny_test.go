package algo

import (
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1) // on busy cores the wait for a second thread takes longer than its work
	// Autograd accepts no devices after the first backward pass, so the protected device is loaded before. NewThread reports errors.
	_, _ = torch.ParseDevice("protected")
	torchtest.Main(m)
}

// tinyVocab is 256 bytes and the two tokens of a chat.
const tinyVocab = 258

// tinyConfig is a llama with large weights. With the usual deviation of 0.02 all log-probs would be nearly equal, and
// tests would not detect errors.
func tinyConfig() model.Config {
	end := int32(tinyVocab - 1)
	return model.Config{
		ModelType: "llama", VocabSize: tinyVocab, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 8, MaxPositionEmbeddings: 512, RMSNormEps: 1e-5,
		RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: 0.3, EOSTokenIDs: []int32{end}, PadTokenID: &end,
	}
}

const chatML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

func expertTasks() []data.Task {
	no := false
	return []data.Task{
		{ID: "maze_1", Conversation: []data.Message{
			{Role: "user", Content: "Find the goal."},
			{Role: "assistant", Content: "OK", Loss: &no},
			{Role: "user", Content: "You see a wall."},
			{Role: "assistant", Content: "Action: up"},
			{Role: "user", Content: "You see the goal."},
			{Role: "assistant", Content: "Action: down"},
		}},
		{ID: "maze_2", Conversation: []data.Message{
			{Role: "user", Content: "Go."},
			{Role: "assistant", Content: "left"},
			{Role: "user", Content: "Success"},
		}},
	}
}

// clipHigher returns the parameters of all losses, with the clip bounds of the vanilla loss.
func clipHigher() loss.Options {
	return loss.Options{Params: registry.Values{
		"clip_ratio_low": .2, "clip_ratio_high": .28, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05,
		"clip_cov_ratio": .2, "clip_cov_lb": -5.0, "clip_cov_ub": 5.0, "kl_cov_ratio": .2, "ppo_kl_coef": .1,
	}}
}

func vanillaOptions() learner.PolicyOptions {
	return learner.PolicyOptions{Loss: "vanilla", Agg: loss.TokenMean, LossOptions: clipHigher(), Temperature: 1, GradClip: 1}
}

func criticOptions() *learner.CriticOptions {
	return &learner.CriticOptions{
		MiniBatch: 3, Clip: .5, GradClip: 1, AdamW: optim.DefaultAdamW(),
		Schedule: optim.Schedule{Shape: "constant", Base: 1e-2, Steps: 10},
	}
}
