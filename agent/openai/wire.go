package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// Request is one question. Its zero values leave a parameter out of the
// request, Temperature excepted.
type Request struct {
	Messages    []data.Message
	MaxTokens   int
	Temperature float64 // 0 is greedy
	TopP        float64 // 0 and 1: not sent
	TopK        int     // 0: not sent; OpenAI itself does not know it, vLLM and others do
	Seed        *int64
	Stop        []string // the endpoint leaves them out of its reply
}

// Reply is the answer to a Request.
type Reply struct {
	Text   string
	Finish string // finish_reason: stop, length
	Model  string // the name the endpoint gives itself
	Usage  Usage
}

// Usage counts requests and tokens, as endpoints report them.
type Usage struct {
	Requests         int64 `json:"requests"` // sent, those that failed included
	Retries          int64 `json:"retries"`  // of them, sent again
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// wireRequest is the body of a request.
type wireRequest struct {
	Model               string        `json:"model"`
	Messages            []wireMessage `json:"messages"`
	MaxTokens           int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Temperature         float64       `json:"temperature"`
	TopP                float64       `json:"top_p,omitempty"`
	TopK                int           `json:"top_k,omitempty"`
	Seed                *int64        `json:"seed,omitempty"`
	Stop                []string      `json:"stop,omitempty"`
}

type wireMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// newLimit is the name that OpenAI's reasoning models know max_tokens by.
const newLimit = "max_completion_tokens"

func (r Request) body(model string, useNewLimit bool) ([]byte, error) {
	w := wireRequest{Model: model, MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK, Seed: r.Seed, Stop: r.Stop}
	if useNewLimit {
		w.MaxTokens, w.MaxCompletionTokens = 0, r.MaxTokens
	}
	if w.TopP == 1 {
		w.TopP = 0
	}
	for _, m := range r.Messages {
		w.Messages = append(w.Messages, wireMessage{m.Role, m.Content})
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("endpoint: encode request: %w", err)
	}
	return b, nil
}

// parseReply reads the body of a reply with status 200.
func parseReply(body []byte) (Reply, *Error) {
	var w struct {
		Model   string
		Choices []struct {
			Message *struct {
				Content   *string
				ToolCalls []json.RawMessage `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return Reply{}, &Error{Kind: KindMalformed, Words: shorten(string(body)), Err: err}
	}
	if len(w.Error) > 0 && string(w.Error) != "null" {
		// Some gateways answer 200 and put what went wrong behind them here.
		words, _ := errorWords(body)
		return Reply{}, &Error{Kind: KindServer, Words: words}
	}
	r := Reply{Model: w.Model, Usage: Usage{PromptTokens: w.Usage.PromptTokens, CompletionTokens: w.Usage.CompletionTokens}}
	if len(w.Choices) == 0 || w.Choices[0].Message == nil {
		return r, &Error{Kind: KindEmpty, Words: shorten(string(body)), Err: errors.New("no choices with a message")}
	}
	c := w.Choices[0]
	r.Finish = c.FinishReason
	switch {
	case c.FinishReason == "content_filter":
		return r, &Error{Kind: KindFiltered, Err: errors.New("finish_reason is content_filter")}
	case c.Message.Content != nil:
		r.Text = *c.Message.Content
	case len(c.Message.ToolCalls) > 0:
		return r, &Error{Kind: KindRefused, Err: errors.New("the model called tools that nobody offered it, and said nothing: turn off the endpoint's tool parser")}
	case c.FinishReason == finishLength:
		// A model that thinks out of sight may use up its tokens before it speaks.
	default:
		return r, &Error{Kind: KindEmpty, Words: shorten(string(body)), Err: errors.New("the message has no content")}
	}
	return r, nil
}

const finishLength = "length"

// errorWords takes the endpoint's words and its code out of an error's body.
// The forms are {"error": {"message", "code", "type"}}, {"error": "text"},
// {"message", "code"}, {"detail"}; others are repeated as they are.
func errorWords(body []byte) (words, code string) {
	type fault struct {
		Message, Type string
		Code          any
		Detail        json.RawMessage
		Error         json.RawMessage
	}
	var f fault
	if json.Unmarshal(body, &f) != nil {
		return shorten(string(body)), ""
	}
	if len(f.Error) > 0 {
		var text string
		if json.Unmarshal(f.Error, &text) == nil {
			return shorten(text), ""
		}
		var inner fault
		if json.Unmarshal(f.Error, &inner) == nil {
			f = inner
		}
	}
	code, _ = f.Code.(string)
	if code == "" {
		code = f.Type
	}
	switch {
	case f.Message != "":
		return shorten(f.Message), code
	case len(f.Detail) > 0:
		return shorten(string(f.Detail)), code
	}
	return shorten(string(body)), code
}

// tooLong reports whether a refusal says that the conversation does not fit.
// There is no common code for it: these are the words of OpenAI and vLLM,
// SGLang, llama.cpp, and others that say one of them.
func tooLong(words, code string) bool {
	if code == "context_length_exceeded" || code == "exceed_context_size_error" {
		return true
	}
	w := strings.ToLower(words)
	for _, mark := range []string{"maximum context length", "context length exceeded", "exceeds the model's context", "longer than the model's context length", "exceeds the available context size", "context_length_exceeded", "maximum model length"} {
		if strings.Contains(w, mark) {
			return true
		}
	}
	return false
}
