package hydra

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseValue(t *testing.T) {
	for _, tt := range []struct {
		text string
		want any
	}{
		{"", ""},
		{"null", nil},
		{"Null", nil},
		{"true", true},
		{"False", false},
		{"1", int64(1)},
		{"-1", int64(-1)},
		{"16_384", int64(16384)},
		{"1e-6", 1e-6},
		{"1E5", 1e5},
		{".001", .001},
		{"0.", 0.0},
		{"1_0.5_0", 10.50},
		{"inf", math.Inf(1)},
		{"1_", "1_"},
		{"1.2.3", "1.2.3"},
		{"bfloat16", "bfloat16"},
		{"../model/Qwen2.5-3B", "../model/Qwen2.5-3B"},
		{"http://0.0.0.0", "http://0.0.0.0"},
		{"two words ", "two words"},
		{"'a, b'", "a, b"},
		{`"it's"`, "it's"},
		{`'it\'s'`, "it's"},
		{`a\,b`, "a,b"},
		{"${trainer.project_name}/x", "${trainer.project_name}/x"},
		{"[]", []any{}},
		{"[36001,36002]", []any{int64(36001), int64(36002)}},
		{"[ console , 'wandb' ]", []any{"console", "wandb"}},
		{"[a,[1,2.5]]", []any{"a", []any{int64(1), 2.5}}},
		{"{}", map[string]any{}},
		{"{a: 1, b: [x, null]}", map[string]any{"a": int64(1), "b": []any{"x", nil}}},
		{"99999999999999999999", 99999999999999999999.0},
	} {
		got, err := ParseValue(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", tt.text, diff)
		}
	}
}

func TestParseValueRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"1,2":                    "sweep",
		"[1,2":                   "closing ]",
		"{a: 1":                  "closing }",
		"{a}":                    "without a value",
		"'a":                     "no closing '",
		"'a'b":                   "after its value",
		"[a,":                    "before a value",
		strings.Repeat("[", 100): "nested brackets",
	} {
		if v, err := ParseValue(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", clip(text), v, err, want)
		}
	}
}

func TestParseOverride(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Override
	}{
		{"a.b=c", Override{Key: "a.b", Value: "c", Text: "c"}},
		{"+a.b=1", Override{Key: "a.b", Value: int64(1), Text: "1"}},
		{"++a.b=[x]", Override{Key: "a.b", Value: []any{"x"}, Text: "[x]"}},
		{"~a.b", Override{Key: "a.b", Delete: true, Value: ""}},
		{"~a.b=1", Override{Key: "a.b", Delete: true, Value: int64(1), Text: "1"}},
		{"a.b=", Override{Key: "a.b", Value: ""}},
		{"a.b=c=d", Override{Key: "a.b", Value: "c=d", Text: "c=d"}},
		{"group/sub@pkg=x", Override{Key: "group.sub", Value: "x", Text: "x"}},
	} {
		got, err := ParseOverride(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", tt.text, diff)
		}
	}
	for _, text := range []string{"", "a.b", "=1", "a b=1", "a..b=1", "a.b=[1"} {
		if o, err := ParseOverride(text); err == nil {
			t.Errorf("%q is %+v", text, o)
		}
	}
}

func FuzzParseOverride(f *testing.F) {
	for _, s := range []string{"a.b=1e-6", "+a=[x,'y',{z: 1}]", "~a", "a=${b.c}", `a="\"`, "a=1,2", "a=[[[["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOverride(text)
		if err == nil && !isKey(o.Key) {
			t.Errorf("%q has the key %q", text, o.Key)
		}
	})
}
