package main

import (
	"context"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

const (
	tinyContext = 2048
	mazeStarts  = 25 // cells an episode can start from

	tinyEnd      = "<|im_end|>"
	tinyTemplate = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
		"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

// newTinyModel makes a llama of the quickstart's shape with random weights and
// a vocabulary learned from text.
func newTinyModel(ctx context.Context, t *torch.Thread, text string) (*model.Bundle, error) {
	tok, err := tokenizer.TrainBPE([]string{text, "user", "assistant"}, 512, []string{"<|im_start|>", tinyEnd})
	if err != nil {
		return nil, err
	}
	end, _ := tok.TokenToID(tinyEnd)
	m, err := model.New(ctx, t, model.Config{
		ModelType: "llama", VocabSize: tok.Size(), HiddenSize: 128, IntermediateSize: 384, NumHiddenLayers: 4,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 32, MaxPositionEmbeddings: tinyContext, RMSNormEps: 1e-5,
		RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: 0.02, EOSTokenIDs: []int32{end}, PadTokenID: &end,
	}, 1, torch.Float32)
	if err != nil {
		return nil, err
	}
	return &model.Bundle{
		Model: m, Tokenizer: tok,
		TokenizerConfig: tokenizer.Config{EOS: tinyEnd, Pad: tinyEnd, ChatTemplate: tinyTemplate, ModelMaxLength: tinyContext},
		Generation:      model.GenerationConfig{EOSTokenIDs: []int32{end}, PadTokenID: &end},
	}, nil
}
