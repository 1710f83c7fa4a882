package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// Vocabulary describes a byte-level BPE tokenizer in a format without tokenizer.json.
type Vocabulary struct {
	Tokens []string    // indexed by id, in the byte-level alphabet; "" for an unused id
	Merges [][2]string // in rank order
	Added  []AddedToken
	Scheme Scheme
	BOS    int32 // id of the token that begins every text; -1 for none
}

// Scheme configures the steps before BPE as in the tokenizer.json of a model
// family. Equal schemes give equal words.
type Scheme struct {
	pre          string // pre_tokenizer: the JSON of a Sequence
	nfc          bool   // normalize to NFC
	ignoreMerges bool   // a word in the vocabulary becomes its id without merges
}

// The supported schemes.
var (
	GPT2   = Scheme{pre: sequence(byteLevelLayout(true))}
	SmolLM = Scheme{pre: sequence(marshal(digitsJSON{"Digits", true}), byteLevelLayout(true))}
	Llama3 = Scheme{pre: sequence(splitOn(llama3Pattern), byteLevelLayout(false)), ignoreMerges: true}
	Qwen2  = Scheme{pre: sequence(splitOn(qwen2Pattern), byteLevelLayout(false)), nfc: true}
)

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func sequence(steps ...json.RawMessage) string {
	return string(marshal(sequenceJSON{Type: "Sequence", PreTokenizers: steps}))
}

func splitOn(regex string) json.RawMessage {
	s := splitJSON{Type: "Split", Behavior: "Isolated"}
	s.Pattern.Regex = &regex
	return marshal(s)
}

func byteLevelLayout(useRegex bool) json.RawMessage {
	return marshal(byteLevelJSON{Type: "ByteLevel", TrimOffsets: true, UseRegex: useRegex})
}

// Build returns the tokenizer of a vocabulary. It writes a tokenizer.json and
// parses it, so that the tokenizer does not change when it is saved and opened.
func (v *Vocabulary) Build() (*Tokenizer, error) {
	f := file{
		Version: "1.0", AddedTokens: append([]AddedToken{}, v.Added...), PreTokenizer: json.RawMessage(v.Scheme.pre), PostProcessor: v.post(),
		Decoder: byteLevelLayout(true),
		Model: marshal(modelJSON[orderedVocab]{
			Type: "BPE", IgnoreMerges: v.Scheme.ignoreMerges, Vocab: v.Tokens, Merges: v.Merges,
		}),
	}
	if v.Scheme.nfc {
		f.Normalizer = marshal(typeJSON{"NFC"})
	}
	return Parse(marshal(f))
}

// post returns the post-processor that adds the BOS token.
func (v *Vocabulary) post() json.RawMessage {
	if v.BOS < 0 {
		return nil
	}
	bos := v.Tokens[v.BOS]
	special := func(typeID int) templatePiece { return templatePiece{SpecialToken: &pieceRef{bos, typeID}} }
	text := func(id string, typeID int) templatePiece { return templatePiece{Sequence: &pieceRef{id, typeID}} }
	return marshal(templateJSON{
		Type: "TemplateProcessing", Single: []templatePiece{special(0), text("A", 0)},
		Pair:          marshal([]templatePiece{special(0), text("A", 0), special(1), text("B", 1)}),
		SpecialTokens: map[string]specialJSON{bos: {bos, []int32{v.BOS}, []string{bos}}},
	})
}

// orderedVocab is a vocabulary that is written as a JSON object in the order of ids.
type orderedVocab []string

// MarshalJSON writes the object {token: id, …}.
func (v orderedVocab) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for id, token := range v {
		if token == "" {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(marshal(token))
		out.WriteByte(':')
		out.WriteString(strconv.Itoa(id))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// marshal returns the JSON of v. It panics if v has none.
func marshal(v any) json.RawMessage {
	text, err := plainjson.Marshal(v)
	if err != nil {
		panic("tokenizer: " + err.Error())
	}
	return text
}
