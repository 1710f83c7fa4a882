package reward

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrNoGroundTruth is the error of a function that needs a ground truth, for a
// sample whose row has none. The caller adds the name of the column.
var ErrNoGroundTruth = errors.New("its data row has no ground truth to compare with")

// Targets returns the accepted answers of a ground truth: the strings or numbers of
// a JSON list, or of "target" in a JSON object (as in OpenManus-RL's question
// answering rows), else the text itself.
func Targets(truth string) []string {
	text := strings.TrimSpace(truth)
	var object struct {
		Target json.RawMessage `json:"target"`
	}
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &object) == nil && len(object.Target) > 0 {
		if list, ok := jsonTexts(object.Target); ok {
			return list
		}
	}
	if strings.HasPrefix(text, "[") {
		if list, ok := jsonTexts([]byte(text)); ok {
			return list
		}
	}
	return []string{truth}
}

// jsonTexts reads a string or number, or a list of them.
func jsonTexts(raw []byte) ([]string, bool) {
	var one scalar
	if json.Unmarshal(raw, &one) == nil {
		return []string{string(one)}, true
	}
	var many []scalar
	if json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return nil, false
	}
	out := make([]string, len(many))
	for i, s := range many {
		out[i] = string(s)
	}
	return out, true
}

// scalar is a JSON string or number as text.
type scalar string

// UnmarshalJSON keeps the digits of a number unchanged.
func (s *scalar) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(s))
	}
	var n json.Number
	if err := json.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("%.20s is neither a string nor a number", raw)
	}
	*s = scalar(n.String())
	return nil
}
