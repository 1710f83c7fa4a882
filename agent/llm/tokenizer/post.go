package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// template is a TemplateProcessing step: ids added before and after a text.
type template struct {
	before, after []int32
	names         []string // names of all special tokens, for checkPost
	ids           []int32
}

// Layout of TemplateProcessing.
type (
	templateJSON struct {
		Type          string                 `json:"type"`
		Single        []templatePiece        `json:"single"`
		Pair          json.RawMessage        `json:"pair"` // unused: texts are encoded one at a time
		SpecialTokens map[string]specialJSON `json:"special_tokens"`
	}
	templatePiece struct { // exactly one field is set
		SpecialToken *pieceRef `json:"SpecialToken,omitempty"`
		Sequence     *pieceRef `json:"Sequence,omitempty"`
	}
	pieceRef struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	specialJSON struct {
		ID     string   `json:"id"`
		IDs    []int32  `json:"ids"`
		Tokens []string `json:"tokens"`
	}
)

func (t *Tokenizer) readPost(raw json.RawMessage) error {
	steps, err := components(raw, 0)
	if err != nil {
		return err
	}
	for _, s := range steps {
		switch s.kind {
		case "ByteLevel": // changes offsets, not ids
			err = strict(s.raw, &byteLevelJSON{})
		case "TemplateProcessing":
			err = t.readTemplate(s.raw)
		default:
			return fmt.Errorf("type %q is not supported, only ByteLevel, TemplateProcessing and Sequence are", s.kind)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	return nil
}

func (t *Tokenizer) readTemplate(raw json.RawMessage) error {
	var c templateJSON
	if err := strict(raw, &c); err != nil {
		return err
	}
	var p template
	seen := false
	for _, piece := range c.Single {
		switch {
		case piece.Sequence != nil && piece.SpecialToken == nil:
			if piece.Sequence.ID != "A" || seen {
				return errors.New(`single must hold the sequence "A" once`)
			}
			seen = true
		case piece.SpecialToken != nil && piece.Sequence == nil:
			special, ok := c.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("special token %q is not defined", piece.SpecialToken.ID)
			}
			if len(special.IDs) != len(special.Tokens) {
				return fmt.Errorf("special token %q has %d ids and %d tokens", special.ID, len(special.IDs), len(special.Tokens))
			}
			p.names = append(p.names, special.Tokens...)
			p.ids = append(p.ids, special.IDs...)
			if seen {
				p.after = append(p.after, special.IDs...)
			} else {
				p.before = append(p.before, special.IDs...)
			}
		default:
			return errors.New("a piece is neither a SpecialToken nor a Sequence")
		}
	}
	if !seen {
		return errors.New(`single lacks the sequence "A"`)
	}
	if t.post != nil {
		return errors.New("two TemplateProcessing steps are not supported: the reference ignores the second")
	}
	t.post = &p
	return nil
}

// checkPost verifies that the template's ids belong to its tokens.
func (t *Tokenizer) checkPost() error {
	if t.post == nil {
		return nil
	}
	for i, id := range t.post.ids {
		if got, ok := t.IDToToken(id); !ok || got != t.post.names[i] {
			return fmt.Errorf("TemplateProcessing: id %d is not token %q", id, t.post.names[i])
		}
	}
	return nil
}
