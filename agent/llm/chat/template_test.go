package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
)

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type microCase struct {
	Src   string
	Out   string
	Error string
}

// TestMicro compares single constructs with Jinja in transformers' settings.
// Where Jinja fails, Parse or Render must fail too.
func TestMicro(t *testing.T) {
	var g struct {
		Vars       map[string]json.RawMessage
		Cases      []microCase
		Whitespace []microCase
	}
	readJSON(t, "micro.json", &g)
	vars := map[string]any{}
	for k, raw := range g.Vars {
		vars[k] = raw
	}
	for _, c := range append(g.Cases, g.Whitespace...) {
		t.Run(c.Src, func(t *testing.T) {
			tmpl, err := Parse(c.Src)
			var got string
			if err == nil {
				got, err = tmpl.Render(Input{Vars: vars})
			}
			switch {
			case c.Error != "" && err == nil:
				t.Errorf("%q: got %q, want an error (%s)", c.Src, got, c.Error)
			case c.Error == "" && err != nil:
				t.Errorf("%q: %v, want %q", c.Src, err, c.Out)
			case got != c.Out:
				t.Errorf("%q (-want +got):\n%s", c.Src, cmp.Diff(c.Out, got))
			}
		})
	}
}

func testdataDir() string {
	if dir := os.Getenv("OPENMANUS_TESTDATA"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "build", "testdata")
}

// loaded caches the results of loadModel, which takes a second per call.
var loaded = map[string]model{}

type model struct {
	template *Template
	tok      *tokenizer.Tokenizer
	config   tokenizer.Config
}

// loadModel reads the template and the tokenizer of a published model.
func loadModel(t testing.TB, name string) (*Template, *tokenizer.Tokenizer, tokenizer.Config) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a fetched tokenizer; not in short mode")
	}
	m, ok := loaded[name]
	if !ok {
		if name == "smollm2" {
			m = readSmolLM2(t)
		} else {
			m = readModel(t, name)
		}
		var err error
		if m.template, err = Parse(m.config.ChatTemplate); err != nil {
			t.Fatal(err)
		}
		loaded[name] = m
	}
	return m.template, m.tok, m.config
}

// vocabOf maps a model to another model that has the same vocabulary except for
// added tokens, so that the tests read only one of the two vocabularies.
var vocabOf = map[string]string{"llama3": "llama3_2", "qwen2_5": "qwen3"}

var vocabs = map[string]*tokenizer.Tokenizer{}

func readModel(t testing.TB, name string) (m model) {
	t.Helper()
	dir := filepath.Join(testdataDir(), "tokenizers", name)
	const hint = "run ./build.sh test, which fetches the tokenizers, or set OPENMANUS_TESTDATA"
	var err error
	vocab := name
	if as, ok := vocabOf[name]; ok {
		vocab = as
	}
	if m.tok = vocabs[vocab]; m.tok == nil {
		if m.tok, err = tokenizer.Load(filepath.Join(testdataDir(), "tokenizers", vocab)); err != nil {
			t.Fatalf("%v\n%s", err, hint)
		}
		vocabs[vocab] = m.tok
	}
	if m.config, err = tokenizer.LoadConfig(dir); err != nil {
		t.Fatalf("%v\n%s", err, hint)
	}
	return m
}

var modelNames = []string{"llama3", "llama3_2", "qwen2_5", "qwen3", "smollm2"}

// TestModels compares the texts and ids of published models' templates with transformers.
func TestModels(t *testing.T) {
	var g map[string][]struct {
		Name     string
		Messages []data.Message
		Prompt   bool
		Tools    json.RawMessage
		Out      string
		Error    string
		IDs      []int32
	}
	readJSON(t, "models.json", &g)
	for _, name := range modelNames {
		t.Run(name, func(t *testing.T) {
			tmpl, tok, config := loadModel(t, name)
			vars := config.TemplateVars()
			vars["date_string"] = "26 Jul 2024"
			for _, c := range g[name] {
				vars["tools"] = nil
				if c.Tools != nil {
					vars["tools"] = c.Tools
				}
				got, err := tmpl.Render(Input{Messages: c.Messages, AddGenerationPrompt: c.Prompt, Vars: vars})
				if (err != nil) != (c.Error != "") {
					t.Errorf("%s, prompt %v: %v, want error %q", c.Name, c.Prompt, err, c.Error)
					continue
				}
				if diff := cmp.Diff(c.Out, got); diff != "" {
					t.Errorf("%s, prompt %v (-want +got):\n%s", c.Name, c.Prompt, diff)
				}
				if c.IDs != nil {
					if diff := cmp.Diff(c.IDs, tok.Encode(got, tokenizer.Options{})); diff != "" {
						t.Errorf("%s, prompt %v, ids (-want +got):\n%s", c.Name, c.Prompt, diff)
					}
				}
			}
		})
	}
}

func TestStrftime(t *testing.T) {
	now := time.Date(2024, time.July, 6, 9, 5, 3, 0, time.UTC)
	for layout, want := range map[string]string{
		"%d %b %Y": "06 Jul 2024", "%Y-%m-%d": "2024-07-06", "%A, %B %-d": "Saturday, July 6", "%H:%M:%S %p": "09:05:03 AM", "100%%": "100%",
	} {
		tmpl, err := Parse("{{ strftime_now('" + layout + "') }}")
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(Input{Now: func() time.Time { return now }})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", layout, got, err, want)
		}
	}
}
