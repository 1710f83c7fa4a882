package openai

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// Summarizer answers single prompts, such as those that ask for a summary of
// what happened so far. OpenManus-RL's memory (its SummarizedMemory) asks for
// 300 tokens at most with a temperature of 0.1; the time it allows, 30 s, is
// the Client's Options.Timeout.
type Summarizer struct {
	Client      *Client
	MaxTokens   int
	Temperature float64
}

// Summarize returns what the endpoint says to a prompt.
func (s *Summarizer) Summarize(ctx context.Context, prompt string) (string, error) {
	reply, err := s.Client.Chat(ctx, Request{
		Messages:  []data.Message{{Role: "user", Content: prompt}},
		MaxTokens: s.MaxTokens, Temperature: s.Temperature,
	})
	return reply.Text, err
}
