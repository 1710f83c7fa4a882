package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want Config
	}{
		"strings": {
			`{"bos_token":"<s>","eos_token":"</s>","chat_template":"T","model_max_length":2048}`,
			Config{BOS: "<s>", EOS: "</s>", ChatTemplate: "T", Templates: map[string]string{"default": "T"}, ModelMaxLength: 2048},
		},
		"objects and null": {
			`{"bos_token":null,"eos_token":{"__type":"AddedToken","content":"</s>","lstrip":false},"pad_token":{"content":"<p>"},"unk_token":"<u>","model_max_length":1e30}`,
			Config{EOS: "</s>", Pad: "<p>", Unk: "<u>"},
		},
		"named templates": {
			`{"chat_template":[{"name":"default","template":"A"},{"name":"tool_use","template":"B"}]}`,
			Config{ChatTemplate: "A", Templates: map[string]string{"default": "A", "tool_use": "B"}},
		},
		"nothing": {`{}`, Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig([]byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			data, err := got.JSON()
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseConfig(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("JSON and ParseConfig (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{"", "[]", `{"eos_token":5}`, `{"eos_token":{}}`, `{"chat_template":5}`} {
		if _, err := ParseConfig([]byte(bad)); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	got, err := LoadConfig(dir)
	if diff := cmp.Diff(Config{}, got); err != nil || diff != "" {
		t.Errorf("empty folder: %v\n%s", err, diff)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer_config.json", `{"eos_token":"</s>","chat_template":"old"}`)
	write("chat_template.jinja", "new\n")
	got, err = LoadConfig(dir)
	if err != nil || got.EOS != "</s>" || got.ChatTemplate != "new\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff(map[string]any{"eos_token": "</s>"}, got.TemplateVars()); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	write("tokenizer_config.json", "{")
	if _, err := LoadConfig(dir); err == nil {
		t.Error("broken file: no error")
	}
}
