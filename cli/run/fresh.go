package run

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// Fresh models use the ChatML template. The token freshEnd ends a reply.
const (
	freshStart    = "<|im_start|>"
	freshEnd      = "<|im_end|>"
	freshTemplate = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
		"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

// FreshModel returns a small llama with random weights. Its vocabulary is bytes, or
// byte pairs (BPE) computed from the conversations of the tasks in examples.
// maxContext is the number of positions.
func FreshModel(ctx context.Context, t *torch.Thread, f configs.Fresh, maxContext int, seed uint64, examples []data.Task) (*model.Bundle, error) {
	size := 256 + 2 // bytes and two special tokens
	var texts []string
	if f.Vocabulary == "bpe" {
		size = f.VocabSize
		for i := range examples {
			for _, m := range examples[i].Conversation {
				texts = append(texts, m.Role, m.Content)
			}
		}
		if len(texts) == 0 {
			return nil, errext.With(errext.Input, `give env.expert_tasks, model.fresh.walks or files with conversations, or set model.fresh.vocabulary = "bytes"`,
				errors.New("there is no text for computing the merges of a bpe vocabulary"))
		}
	}
	tok, err := tokenizer.TrainBPE(texts, size, []string{freshStart, freshEnd})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("make a vocabulary: %w", err))
	}
	end, _ := tok.TokenToID(freshEnd)
	m, err := model.New(ctx, t, freshConfig(f, tok.Size(), maxContext, end), seed, torch.Float32)
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("make a model: %w", err))
	}
	return &model.Bundle{
		Model:     m,
		Tokenizer: tok,
		TokenizerConfig: tokenizer.Config{
			EOS: freshEnd, Pad: freshEnd, ChatTemplate: freshTemplate, ModelMaxLength: maxContext,
		},
		Generation: model.GenerationConfig{EOSTokenIDs: []int32{end}, PadTokenID: &end},
	}, nil
}

// freshConfig returns the configuration of a fresh model. end is the token that ends a reply.
func freshConfig(f configs.Fresh, vocabulary, maxContext int, end int32) model.Config {
	return model.Config{
		ModelType:             "llama",
		VocabSize:             vocabulary,
		HiddenSize:            f.HiddenSize,
		IntermediateSize:      f.IntermediateSize,
		NumHiddenLayers:       f.Layers,
		NumAttentionHeads:     f.Heads,
		NumKeyValueHeads:      f.KVHeads,
		HeadDim:               f.HiddenSize / f.Heads,
		MaxPositionEmbeddings: maxContext,
		RMSNormEps:            1e-5,
		RopeTheta:             10000,
		TieWordEmbeddings:     true,
		// The usual 0.02 suits hidden sizes of thousands. With hidden size 128, attention
		// would stay almost uniform for the first hundred steps.
		InitializerRange: 1 / math.Sqrt(float64(f.HiddenSize)),
		EOSTokenIDs:      []int32{end},
		PadTokenID:       &end,
	}
}
