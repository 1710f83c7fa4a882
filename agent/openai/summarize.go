package openai

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// Summarizer answers single prompts, such as those that ask for a summary of
// what happened so far. OpenManus-RL's memory asks with these values, too, for
// 300 tokens at most and a temperature of 0.1 (its SummarizedMemory); the time
// it allows, 30 s, is the Client's Options.Timeout.
type Summarizer struct {
	Client    *Client
	MaxTokens int // 0: 300
}

// Summarize returns what the endpoint says to a prompt.
func (s *Summarizer) Summarize(ctx context.Context, prompt string) (string, error) {
	limit := s.MaxTokens
	if limit == 0 {
		limit = 300
	}
	reply, err := s.Client.Chat(ctx, Request{Messages: []data.Message{{Role: "user", Content: prompt}}, MaxTokens: limit, Temperature: 0.1})
	return reply.Text, err
}
