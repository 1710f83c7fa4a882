package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Vocabulary describes the tokenizer in parts; Build makes a tokenizer with the
// same ids from them. It fails if the tokenizer has a property that Vocabulary
// has no field for. Its Scheme may be another one than the supported schemes.
func (t *Tokenizer) Vocabulary() (*Vocabulary, error) {
	var f file
	if err := json.Unmarshal(t.raw, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	var m modelJSON[json.RawMessage]
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("tokenizer.json: model: %w", err)
	}
	pre, err := normalized(f.PreTokenizer)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: pre_tokenizer: %w", err)
	}
	v := &Vocabulary{
		Tokens: slices.Clone(t.tokens), Merges: m.Merges, Added: t.Added(), BOS: -1,
		Scheme: Scheme{pre: pre, nfc: t.nfc, ignoreMerges: m.IgnoreMerges},
	}
	for id, known := range t.known {
		if !known {
			v.Tokens[id] = ""
		}
	}
	if m.UnkToken != nil && m.FuseUnk {
		return nil, errors.New("the tokenizer joins unknown tokens (fuse_unk)")
	}
	if p := t.post; p != nil && len(p.before)+len(p.after) > 0 {
		if len(p.before) != 1 || len(p.after) > 0 {
			return nil, fmt.Errorf("the tokenizer adds the tokens %v before and %v after a text; one token before it is supported", p.before, p.after)
		}
		v.BOS = p.before[0]
	}
	return v, nil
}

// normalized returns the JSON of a pre-tokenizer without the options that change
// no ids.
func normalized(raw json.RawMessage) (string, error) {
	steps, err := components(raw, 0)
	if err != nil {
		return "", err
	}
	var list []json.RawMessage
	for _, s := range steps {
		switch s.kind {
		case "ByteLevel":
			c := byteLevelJSON{UseRegex: true}
			if err := json.Unmarshal(s.raw, &c); err != nil {
				return "", err
			}
			c.TrimOffsets = true
			list = append(list, marshal(c))
		case "Split":
			var c splitJSON
			if err := json.Unmarshal(s.raw, &c); err != nil {
				return "", err
			}
			list = append(list, marshal(c))
		case "Digits":
			var c digitsJSON
			if err := json.Unmarshal(s.raw, &c); err != nil {
				return "", err
			}
			list = append(list, marshal(c))
		default:
			return "", fmt.Errorf("type %q is not supported", s.kind)
		}
	}
	return sequence(list...), nil
}
