package serve

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
)

// Limits on the fields of requests.
const (
	maxChoices = 128 // n, and the prompts of a completion
	maxStops   = 16
	maxTop     = 20 // top_logprobs
)

// Sampling holds the sampling fields of a request, nil where the request has none.
type Sampling struct {
	Temperature *float64 // 0: greedy
	TopP        *float64
	TopK        *int // -1 and 0: off
	Seed        *int64
}

// Params returns sampling parameters. Absent fields are temperature 1 without top-p and top-k.
func (s Sampling) Params() engine.Params {
	p := engine.Params{Temperature: 1, TopP: 1}
	if s.Temperature != nil {
		p.Temperature, p.Greedy = float32(*s.Temperature), *s.Temperature == 0
	}
	if s.TopP != nil {
		p.TopP = float32(*s.TopP)
	}
	if s.TopK != nil {
		p.TopK = max(*s.TopK, 0)
	}
	return p
}

// request is a request for replies, in the form that chat and text completions share.
type request struct {
	model    string
	messages []data.Message // of a chat completion
	prompts  [][]int32      // of a completion: one or several prompts
	sampling Sampling
	maxNew   int // 0: the rest of the context
	n        int // replies to each prompt
	stops    []string
	logprobs bool
	top      int  // most probable tokens with every token
	ids      bool // the reply has token ids
	stream   bool
	usage    bool // the stream ends with the usage
	session  string
	task     string
}

// readShared reads the fields that chat and text completions share.
func (r *request) readShared(f *fields) {
	r.model, _ = take[string](f, "model")
	r.sampling = Sampling{
		Temperature: optional[float64](f, "temperature"), TopP: optional[float64](f, "top_p"),
		TopK: optional[int](f, "top_k"), Seed: optional[int64](f, "seed"),
	}
	if t := r.sampling.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		f.invalid("temperature", "temperature is %g, want 0 (greedy) to 2", *t)
	}
	if p := r.sampling.TopP; p != nil && !(*p > 0 && *p <= 1) {
		f.invalid("top_p", "top_p is %g, want more than 0, and at most 1 (off)", *p)
	}
	if k := r.sampling.TopK; k != nil && *k < -1 {
		f.invalid("top_k", "top_k is %d, want 1 or more, or 0 or -1 (off)", *k)
	}
	const most = 1 << 30
	r.maxNew = f.integer("max_tokens", 0, 1, most)
	r.n = f.integer("n", 1, 1, maxChoices)
	r.readStops(f)
	r.ids, _ = take[bool](f, "return_token_ids")
	r.stream, _ = take[bool](f, "stream")
	options, given := take[struct {
		Usage       bool  `json:"include_usage"`
		Obfuscation *bool `json:"include_obfuscation"` // pads chunks against observers of encrypted traffic; never done here
	}](f, "stream_options")
	if given && !r.stream {
		f.invalid("stream_options", "stream_options needs stream = true")
	}
	r.usage = options.Usage
}

// readStops reads stop, a string or a list of strings.
func (r *request) readStops(f *fields) {
	raw, given := take[json.RawMessage](f, "stop")
	if !given {
		return
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		r.stops = []string{one}
	} else if err := json.Unmarshal(raw, &r.stops); err != nil {
		f.invalid("stop", "stop must be a string or a list of strings")
		return
	}
	if len(r.stops) > maxStops {
		f.invalid("stop", "stop has %d strings, want at most %d", len(r.stops), maxStops)
	}
	for _, s := range r.stops {
		if s == "" {
			f.invalid("stop", "stop has an empty string, which would end every reply")
		}
	}
}

// readChat reads the body of a chat completion.
func readChat(body []byte) (*request, *Error) {
	f, fail := readFields(body)
	if fail != nil {
		return nil, fail
	}
	r := &request{}
	r.readShared(f)
	if most := f.integer("max_completion_tokens", 0, 1, 1<<30); most > 0 {
		if r.maxNew > 0 && r.maxNew != most {
			f.invalid("max_completion_tokens", "max_completion_tokens is %d, but max_tokens is %d: give one of them", most, r.maxNew)
		}
		r.maxNew = most
	}
	r.logprobs, _ = take[bool](f, "logprobs")
	r.top = f.integer("top_logprobs", 0, 0, maxTop)
	if r.top > 0 && !r.logprobs {
		f.invalid("top_logprobs", "top_logprobs needs logprobs = true")
	}
	messages, given := take[[]json.RawMessage](f, "messages")
	if !given || len(messages) == 0 {
		f.invalid("messages", "messages must be a list of at least one message")
	}
	for i, raw := range messages {
		m, err := readMessage(raw)
		if err != nil {
			f.invalid(fmt.Sprintf("messages[%d]", i), "messages[%d]: %v", i, err)
			break
		}
		r.messages = append(r.messages, m)
	}
	return r, f.end()
}

// readMessage reads a message whose content is text or a list of text parts. The role
// developer is OpenAI's newer name of the role system.
func readMessage(raw json.RawMessage) (data.Message, error) {
	var w struct {
		Role      string
		Content   json.RawMessage
		ToolCalls []json.RawMessage `json:"tool_calls"`
		Function  json.RawMessage   `json:"function_call"`
	}
	m := data.Message{}
	if err := json.Unmarshal(raw, &w); err != nil {
		return m, fmt.Errorf("a message is an object with role and content: %s", JSONFault(err))
	}
	switch m.Role = w.Role; m.Role {
	case "developer":
		m.Role = "system"
	case "system", "user", "assistant":
	case "tool", "function":
		return m, fmt.Errorf("the role %q needs tool calls, which the server does not parse; send the result of a tool with the role user", m.Role)
	default:
		return m, fmt.Errorf("the role is %q, want system, user or assistant", m.Role)
	}
	if len(w.ToolCalls) > 0 || len(w.Function) > 0 && string(w.Function) != "null" {
		return m, fmt.Errorf("tool calls are not supported; send the text of the reply")
	}
	if json.Unmarshal(w.Content, &m.Content) == nil && len(w.Content) > 0 && string(w.Content) != "null" {
		return m, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(w.Content, &parts); err != nil || parts == nil {
		return m, fmt.Errorf("the content must be a text or a list of text parts")
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return m, fmt.Errorf("a part of the content has the type %q, want text", p.Type)
		}
		text.WriteString(p.Text)
	}
	m.Content = text.String()
	return m, nil
}

// readCompletion reads the body of a text completion. It encodes texts with the tokens that
// the tokenizer puts around a text, such as <|begin_of_text|>.
func readCompletion(body []byte, t *tokenizer.Tokenizer) (*request, *Error) {
	f, fail := readFields(body)
	if fail != nil {
		return nil, fail
	}
	r := &request{}
	r.readShared(f)
	if r.maxNew == 0 {
		r.maxNew = 16 // the default of OpenAI's API
	}
	if best := f.integer("best_of", r.n, 1, maxChoices); best != r.n {
		f.invalid("best_of", "best_of is %d; the server supports only the value of n", best)
	}
	if raw, given := take[json.RawMessage](f, "logprobs"); given {
		var on bool
		if json.Unmarshal(raw, &on) == nil {
			f.invalid("logprobs", "logprobs of a completion is the number of most probable tokens, 0 to %d", maxTop)
		} else if err := json.Unmarshal(raw, &r.top); err != nil || r.top < 0 || r.top > maxTop {
			f.invalid("logprobs", "logprobs is %s, want 0 to %d", excerpt(raw), maxTop)
		}
		r.logprobs = true
	}
	raw, _ := take[json.RawMessage](f, "prompt")
	r.prompts = readPrompts(f, raw, t)
	return r, f.end()
}

// readPrompts reads the prompt of a completion: a text, a list of texts, a list of ids or
// a list of lists of ids.
func readPrompts(f *fields, raw json.RawMessage, t *tokenizer.Tokenizer) [][]int32 {
	encode := func(text string) []int32 { return t.Encode(text, tokenizer.Options{AddSpecial: true}) }
	var (
		text  string
		texts []string
		ids   []int32
		lists [][]int32
	)
	switch {
	case raw == nil:
		f.invalid("prompt", "prompt must be a text, a list of texts, a list of token ids or a list of such lists")
		return nil
	case json.Unmarshal(raw, &text) == nil:
		lists = [][]int32{encode(text)}
	case json.Unmarshal(raw, &texts) == nil:
		for _, text := range texts {
			lists = append(lists, encode(text))
		}
	case json.Unmarshal(raw, &ids) == nil:
		lists = [][]int32{ids}
	case json.Unmarshal(raw, &lists) != nil:
		f.invalid("prompt", "prompt must be a text, a list of texts, a list of token ids or a list of such lists")
		return nil
	}
	if len(lists) == 0 || len(lists) > maxChoices {
		f.invalid("prompt", "prompt has %d prompts, want 1 to %d", len(lists), maxChoices)
	}
	for i, list := range lists {
		if len(list) == 0 {
			f.invalid("prompt", "prompt %d is empty", i)
		}
		for _, id := range list {
			if id < 0 || int(id) >= t.Size() {
				f.invalid("prompt", "prompt %d has the token id %d, want 0 to %d", i, id, t.Size()-1)
			}
		}
	}
	return lists
}
