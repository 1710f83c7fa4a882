package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// maxDepth bounds the nesting of Sequence components.
const maxDepth = 4

// Layouts of components, for reading and writing.
type (
	typeJSON struct {
		Type string `json:"type"`
	}
	sequenceJSON struct { // exactly one of the lists is set, depending on the component
		Type          string            `json:"type"`
		Normalizers   []json.RawMessage `json:"normalizers,omitempty"`
		PreTokenizers []json.RawMessage `json:"pretokenizers,omitempty"`
		Processors    []json.RawMessage `json:"processors,omitempty"`
	}
	splitJSON struct {
		Type    string `json:"type"`
		Pattern struct {
			Regex  *string `json:"Regex,omitempty"`
			String *string `json:"String,omitempty"`
		} `json:"pattern"`
		Behavior string `json:"behavior"`
		Invert   bool   `json:"invert"`
	}
	digitsJSON struct {
		Type       string `json:"type"`
		Individual bool   `json:"individual_digits"`
	}
)

// component is a normalizer, pre-tokenizer, post-processor or decoder, or one of its steps.
type component struct {
	kind string
	raw  json.RawMessage
}

// components returns the steps of raw, with nested Sequences flattened. A
// component that is not a Sequence is its only step.
func components(raw json.RawMessage, depth int) ([]component, error) {
	if absent(raw) {
		return nil, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	if kind != "Sequence" {
		return []component{{kind, raw}}, nil
	}
	if depth == maxDepth {
		return nil, errors.New("sequences nest too deep")
	}
	var c sequenceJSON
	if err := strict(raw, &c); err != nil {
		return nil, err
	}
	var out []component
	for _, step := range slices.Concat(c.Normalizers, c.PreTokenizers, c.Processors) {
		steps, err := components(step, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, steps...)
	}
	return out, nil
}

func (t *Tokenizer) readNormalizer(raw json.RawMessage) error {
	steps, err := components(raw, 0)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.kind != "NFC" {
			return fmt.Errorf("type %q is not supported, only NFC and Sequence are", s.kind)
		}
		if err := strict(s.raw, &typeJSON{}); err != nil {
			return err
		}
		t.nfc = true
	}
	return nil
}

func (t *Tokenizer) readPreTokenizer(raw json.RawMessage) error {
	steps, err := components(raw, 0)
	if err != nil {
		return err
	}
	for i, s := range steps {
		if last := i == len(steps)-1; last != (s.kind == "ByteLevel") {
			return fmt.Errorf("step %d is %s; ByteLevel must be the last step, and no other step", i, s.kind)
		}
		if err := t.readStep(s.kind, s.raw); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	if len(steps) == 0 {
		return errors.New("missing or empty; it must end in ByteLevel")
	}
	return nil
}

func (t *Tokenizer) readStep(kind string, raw json.RawMessage) error {
	switch kind {
	case "Split":
		var c splitJSON
		if err := strict(raw, &c); err != nil {
			return err
		}
		switch {
		case c.Pattern.Regex != nil && c.Pattern.String == nil:
			by, err := compilePattern(*c.Pattern.Regex)
			if err != nil {
				return err
			}
			return t.addSplit(by, c.Behavior, c.Invert)
		case c.Pattern.String != nil && c.Pattern.Regex == nil:
			return t.addSplit(literal([]rune(*c.Pattern.String)), c.Behavior, c.Invert)
		}
		return errors.New("pattern must be one of Regex and String")
	case "Digits":
		var c digitsJSON
		if err := strict(raw, &c); err != nil {
			return err
		}
		if c.Individual {
			return t.addSplit(digits, "Isolated", false)
		}
		return t.addSplit(digits, "Contiguous", false)
	case "ByteLevel":
		c := byteLevelJSON{UseRegex: true}
		if err := strict(raw, &c); err != nil {
			return err
		}
		t.pre.prefixSpace = c.AddPrefixSpace
		if !c.UseRegex {
			return nil
		}
		var err error
		t.pre.words, err = compilePattern(gpt2Pattern)
		return err
	}
	return errors.New("type is not supported, only Sequence, Split, Digits and ByteLevel are")
}

func (t *Tokenizer) addSplit(by splitter, behavior string, invert bool) error {
	s, err := newSplit(by, behavior, invert)
	if err == nil {
		t.pre.splits = append(t.pre.splits, s)
	}
	return err
}

// byteLevelJSON is the layout of ByteLevel as pre-tokenizer, post-processor and
// decoder. In a post-processor or decoder, its options change offsets only.
type byteLevelJSON struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       bool   `json:"use_regex"`
}

func readDecoder(raw json.RawMessage) error {
	if absent(raw) {
		return errors.New("missing, only ByteLevel is supported")
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	if kind != "ByteLevel" {
		return fmt.Errorf("type %q is not supported, only ByteLevel is", kind)
	}
	return strict(raw, &byteLevelJSON{})
}
