package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/internal/process"
	"github.com/openmanus/openmanus/torch"
)

// TRLJob is the request to peer_trl.py.
type TRLJob struct {
	Model       string    `json:"model"`
	Threads     int       `json:"threads"`
	Steps       int       `json:"steps"`
	Prompts     [][]int32 `json:"prompts"`
	Group       int       `json:"group"`
	New         int       `json:"new"`
	Micro       int       `json:"micro"`
	BFloat16    bool      `json:"bf16"`      // compute in bfloat16; the weights are float32
	LoRARank    int       `json:"lora_rank"` // 0: train all weights
	LoRAAlpha   int       `json:"lora_alpha"`
	LR          float64   `json:"lr"`
	WeightDecay float64   `json:"weight_decay"`
	GradClip    float64   `json:"grad_clip"`
	ClipLow     float64   `json:"clip_low"`
	ClipHigh    float64   `json:"clip_high"`
	Reward      float64   `json:"reward"` // reward per character
}

// TRLVersions has the versions that the peer reports.
type TRLVersions struct {
	TRL          string `json:"trl"`
	Transformers string `json:"transformers"`
	Torch        string `json:"torch"`
}

// peerGRPO runs the steps with TRL in a process.
func peerGRPO(ctx context.Context, o options, model, dir string, w GRPOWork, prompts [][]int32) (side GRPOSide, v TRLVersions, err error) {
	job, err := json.Marshal(TRLJob{
		Model: model, Threads: o.threads, Steps: grpoSteps + 1, Prompts: prompts, Group: w.Group, New: grpoNew, Micro: w.Group,
		BFloat16: w.Type == torch.BFloat16, LoRARank: w.Rank, LoRAAlpha: grpoAlpha, LR: grpoLR, WeightDecay: grpoDecay, GradClip: grpoGradClip,
		ClipLow: grpoLow, ClipHigh: grpoHigh, Reward: grpoReward,
	})
	if err != nil {
		return side, v, err
	}
	file := filepath.Join(dir, "trl.json")
	if err := os.WriteFile(file, job, 0o644); err != nil {
		return side, v, err
	}
	cmd := process.Command(ctx, o.python, o.trlScript, file)
	cmd.Env = peerEnv(o.threads)
	_, text, err := peakOf(cmd)
	if err != nil {
		return side, v, err
	}
	var answer struct {
		TRLVersions
		Seconds      []float64 `json:"seconds"`
		PromptTokens int       `json:"prompt_tokens"`
		NewTokens    int       `json:"new_tokens"`
		PeakBytes    int64     `json:"peak_bytes"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return side, v, fmt.Errorf("it answered %q: %w", text, err)
	}
	if len(answer.Seconds) != grpoSteps+1 {
		return side, v, fmt.Errorf("TRL did %d steps, want %d", len(answer.Seconds), grpoSteps+1)
	}
	if answer.PeakBytes <= 0 {
		return side, v, fmt.Errorf("TRL reported a peak memory of %d bytes", answer.PeakBytes)
	}
	return GRPOSide{
		Steps: answer.Seconds[1:], PeakBytes: answer.PeakBytes, PromptTokens: answer.PromptTokens, NewTokens: answer.NewTokens,
	}, answer.TRLVersions, nil
}
