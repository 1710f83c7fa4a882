package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/transport"
)

// Request is a request for one reply. Zero values are not sent, except
// Temperature.
type Request struct {
	Messages    []data.Message `json:"messages"`
	MaxTokens   int            `json:"max_tokens,omitempty"`
	Temperature float64        `json:"temperature"`     // 0: greedy
	TopP        float64        `json:"top_p,omitempty"` // 0 and 1: not sent
	TopK        int            `json:"top_k,omitempty"` // 0: not sent; OpenAI rejects it, vLLM and others accept it
	Seed        *int64         `json:"seed,omitempty"`
}

// Reply is the reply to a Request.
type Reply struct {
	Text   string
	Finish string // finish_reason, such as stop or length
	Usage  Usage
}

// Usage counts requests, and the tokens that the endpoint reports.
type Usage struct {
	Requests         int64 `json:"requests"` // number sent, with retries and failures
	Retries          int64 `json:"retries"`  // requests that were retries
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// newLimit is the parameter that OpenAI's reasoning models accept instead of max_tokens.
const newLimit = "max_completion_tokens"

func (r Request) body(model string, useNewLimit bool) ([]byte, error) {
	w := struct {
		Model string `json:"model"`
		Request
		MaxCompletionTokens int `json:"max_completion_tokens,omitempty"`
	}{Model: model, Request: r}
	if useNewLimit {
		w.MaxTokens, w.MaxCompletionTokens = 0, r.MaxTokens
	}
	if w.TopP == 1 {
		w.TopP = 0
	}
	w.Messages = slices.Clone(r.Messages)
	for i := range w.Messages {
		w.Messages[i].Loss = nil // not a key of the API
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("endpoint: encode request: %w", err)
	}
	return b, nil
}

// parseReply parses the body of a reply with status 200.
func parseReply(body []byte) (Reply, *Error) {
	var w struct {
		Choices []struct {
			Message *struct {
				Content   *string
				ToolCalls []json.RawMessage `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage Usage
		Error json.RawMessage
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return Reply{}, &Error{Kind: KindMalformed, Words: transport.Excerpt(string(body)), Err: err}
	}
	if len(w.Error) > 0 && string(w.Error) != "null" {
		// Some gateways reply with status 200 and report their backend's error here.
		words, _ := errorWords(body)
		return Reply{}, &Error{Kind: KindServer, Words: words}
	}
	r := Reply{Usage: w.Usage}
	if len(w.Choices) == 0 || w.Choices[0].Message == nil {
		return r, &Error{Kind: KindEmpty, Words: transport.Excerpt(string(body)), Err: errors.New("no choices with a message")}
	}
	c := w.Choices[0]
	r.Finish = c.FinishReason
	switch {
	case c.FinishReason == "content_filter":
		return r, &Error{Kind: KindFiltered, Err: errors.New("finish_reason is content_filter")}
	case c.Message.Content != nil:
		r.Text = *c.Message.Content
	case len(c.Message.ToolCalls) > 0:
		return r, &Error{Kind: KindRefused, Err: errors.New("the reply has tool calls but no text, although no tools were offered: turn off the endpoint's tool parser")}
	case c.FinishReason == finishLength:
		// A reasoning model can reach the token limit before it writes the text of the reply.
	default:
		return r, &Error{Kind: KindEmpty, Words: transport.Excerpt(string(body)), Err: errors.New("the message has no content")}
	}
	return r, nil
}

const finishLength = "length"

// errorWords returns the message and the code in the body of an error response. The forms
// are {"error": {"message", "code", "type"}}, {"error": "text"}, {"message", "code"},
// {"detail"}. For other bodies, the message is the body. All messages are shortened.
func errorWords(body []byte) (words, code string) {
	type fault struct {
		Message, Type string
		Code          any
		Detail        json.RawMessage
		Error         json.RawMessage
	}
	var f fault
	if json.Unmarshal(body, &f) != nil {
		return transport.Excerpt(string(body)), ""
	}
	if len(f.Error) > 0 {
		var text string
		if json.Unmarshal(f.Error, &text) == nil {
			return transport.Excerpt(text), ""
		}
		var inner fault
		if json.Unmarshal(f.Error, &inner) == nil {
			f = inner
		}
	}
	code, _ = f.Code.(string)
	code = cmp.Or(code, f.Type)
	switch {
	case f.Message != "":
		return transport.Excerpt(f.Message), code
	case len(f.Detail) > 0:
		return transport.Excerpt(string(f.Detail)), code
	}
	return transport.Excerpt(string(body)), code
}

// tooLong reports whether an error means that the conversation does not fit
// into the context. There is no common code; the messages are OpenAI's, vLLM's,
// SGLang's and llama.cpp's.
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
