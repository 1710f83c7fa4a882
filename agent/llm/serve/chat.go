package serve

import (
	"net/http"

	"github.com/openmanus/openmanus/agent/llm/engine"
)

func (h *Handler) chatCompletions(w http.ResponseWriter, req *http.Request) error {
	body, err := h.body(w, req)
	if err != nil {
		return err
	}
	r, fail := readChat(body)
	if fail != nil {
		return fail
	}
	if err := h.check(r, req.Header); err != nil {
		return err
	}
	return h.respond(w, req, r, chatDialect{})
}

// chatDialect is the form of chat completions.
type chatDialect struct{}

func (chatDialect) object(stream bool) string {
	if stream {
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

func (chatDialect) prefix() string { return "chatcmpl" }

// chatMessage is the message of a choice, or the part of it in a chunk.
type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *string `json:"refusal,omitempty"`
}

// chatToken is a token with its log-prob. Bytes are the bytes of the token, which may be a
// part of a character.
type chatToken struct {
	Token   string      `json:"token"`
	LogProb float32     `json:"logprob"`
	Bytes   []int       `json:"bytes"`
	Top     []chatToken `json:"top_logprobs,omitzero"`
}

type chatLogProbs struct {
	Content []chatToken `json:"content"`
	Refusal []chatToken `json:"refusal"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
	IDs      []int32       `json:"token_ids,omitempty"`
}

func (chatDialect) choice(h *Handler, r *request, c *choice, p part, stream bool) any {
	out := chatChoice{Index: c.index}
	message := &chatMessage{}
	if !c.begun {
		message.Role = "assistant"
	}
	if p.text != "" || !stream || !c.begun {
		message.Content = &p.text
	}
	if out.Message = message; stream {
		out.Message, out.Delta = nil, message
	}
	if p.finish != "" {
		out.Finish = &p.finish
	}
	if r.logprobs {
		out.LogProbs = &chatLogProbs{Content: h.chatTokens(p.tokens)}
	}
	if r.ids {
		out.IDs = tokenIDs(p.tokens)
	}
	return out
}

func (h *Handler) chatTokens(tokens []engine.Token) []chatToken {
	list := make([]chatToken, len(tokens))
	for i, t := range tokens {
		list[i] = h.chatToken(t.ID, t.LogProb)
		list[i].Top = []chatToken{}
		for _, other := range t.Top {
			list[i].Top = append(list[i].Top, h.chatToken(other.ID, other.LogProb))
		}
	}
	return list
}

func (h *Handler) chatToken(id int32, logProb float32) chatToken {
	t := chatToken{Token: h.o.Tokenizer.Decode([]int32{id}, false), LogProb: logProb, Bytes: []int{}}
	for _, b := range h.o.Tokenizer.Bytes(id) {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}
