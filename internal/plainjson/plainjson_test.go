package plainjson

import (
	"encoding/json"
	"math"
	"testing"
)

func TestMarshal(t *testing.T) {
	b, err := Marshal(map[string]any{"a": "<b>&\u2028"})
	if want := `{"a":"<b>&\u2028"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	if b, err := Marshal(math.NaN()); err == nil {
		t.Errorf("NaN became %s", b)
	}
}

func TestUnmarshal(t *testing.T) {
	var v any
	if err := Unmarshal([]byte(" 9223372036854775809\n"), &v); err != nil || v != json.Number("9223372036854775809") {
		t.Errorf("%v, %v", v, err)
	}
	for _, text := range []string{"", "1 2", "{} x", "{"} {
		if err := Unmarshal([]byte(text), &v); err == nil {
			t.Errorf("%q became %v", text, v)
		}
	}
}
