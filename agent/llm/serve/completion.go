package serve

import (
	"net/http"
	"unicode/utf8"

	"github.com/openmanus/openmanus/agent/llm/engine"
)

func (h *Handler) completions(w http.ResponseWriter, req *http.Request) error {
	body, err := h.body(w, req)
	if err != nil {
		return err
	}
	r, fail := readCompletion(body, h.o.Tokenizer)
	if fail != nil {
		return fail
	}
	if err := h.check(r, req.Header); err != nil {
		return err
	}
	return h.respond(w, req, r, completionDialect{})
}

// completionDialect is the form of text completions.
type completionDialect struct{}

func (completionDialect) object(bool) string { return "text_completion" }

func (completionDialect) prefix() string { return "cmpl" }

type completionLogProbs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []float32            `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

type completionChoice struct {
	Index     int                 `json:"index"`
	Text      string              `json:"text"`
	LogProbs  *completionLogProbs `json:"logprobs"`
	Finish    *string             `json:"finish_reason"`
	IDs       []int32             `json:"token_ids,omitempty"`
	PromptIDs []int32             `json:"prompt_token_ids,omitempty"`
}

func (completionDialect) choice(h *Handler, r *request, c *choice, p part, stream bool) any {
	out := completionChoice{Index: c.index, Text: p.text}
	if p.finish != "" {
		out.Finish = &p.finish
	}
	if r.logprobs {
		out.LogProbs = h.completionLogProbs(p.tokens, c, r.top > 0)
	}
	if r.ids {
		out.IDs = tokenIDs(p.tokens)
		if !c.begun {
			out.PromptIDs = c.prompt
		}
	}
	return out
}

// completionLogProbs lists tokens in the older form of OpenAI's API. An offset counts the
// characters of the texts of the tokens before.
func (h *Handler) completionLogProbs(tokens []engine.Token, c *choice, top bool) *completionLogProbs {
	l := &completionLogProbs{Tokens: []string{}, LogProbs: []float32{}, Offsets: []int{}}
	if top {
		l.Top = []map[string]float32{}
	}
	for _, t := range tokens {
		text := h.o.Tokenizer.Decode([]int32{t.ID}, false)
		l.Tokens, l.LogProbs, l.Offsets = append(l.Tokens, text), append(l.LogProbs, t.LogProb), append(l.Offsets, c.listed)
		c.listed += utf8.RuneCountInString(text)
		if top {
			others := map[string]float32{}
			for _, o := range t.Top {
				name := h.o.Tokenizer.Decode([]int32{o.ID}, false)
				if _, taken := others[name]; !taken { // tokens of broken characters have one text
					others[name] = o.LogProb
				}
			}
			l.Top = append(l.Top, others)
		}
	}
	return l
}
