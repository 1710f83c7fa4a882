package run

import (
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
)

// TestSetTemplate checks that the configured template and its variables replace the model's, once.
func TestSetTemplate(t *testing.T) {
	const own = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if think %}<think>{% endif %}|{{ lang }}|{{ n }}|{{ x }}"
	h := (&Host{Dir: t.TempDir()}).WithDefaults()
	if err := h.WriteFile("chat.jinja", []byte("\n"+own), false); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    configs.Model
		want string
	}{
		"the model's":    {configs.Model{}, "[user]hi|||"},
		"variables":      {configs.Model{ChatTemplateKwargs: map[string]string{"think": "true", "lang": `say "a"`, "n": "3", "x": "null"}}, `[user]hi<think>|say "a"|3|None`},
		"a false one":    {configs.Model{ChatTemplateKwargs: map[string]string{"think": "false"}}, "[user]hi|||"},
		"a text":         {configs.Model{ChatTemplate: "{{ messages[0].content }}!"}, "hi!"},
		"a file":         {configs.Model{ChatTemplate: "chat.jinja"}, "\n[user]hi|||"},
		"both":           {configs.Model{ChatTemplate: "chat.jinja", ChatTemplateKwargs: map[string]string{"n": "7"}}, "\n[user]hi||7|"},
		"a list as JSON": {configs.Model{ChatTemplate: "{{ n[1] }}", ChatTemplateKwargs: map[string]string{"n": `["a", "b"]`}}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &model.Bundle{TokenizerConfig: tokenizer.Config{ChatTemplate: own}}
			for range 2 { // a checkpoint is opened with the same settings
				if err := setTemplate(&h, b, c.m); err != nil {
					t.Fatal(err)
				}
				tmpl, err := chat.Parse(b.ChatTemplate())
				if err != nil {
					t.Fatal(err)
				}
				got, err := tmpl.Render(chat.Input{Messages: []data.Message{{Role: "user", Content: "hi"}}, Now: time.Now})
				if err != nil || got != c.want {
					t.Errorf("%q, %v; want %q\n%s", got, err, c.want, b.ChatTemplate())
				}
			}
			if n := strings.Count(b.ChatTemplate(), "set n"); n > 1 {
				t.Errorf("the variables are set %d times", n)
			}
		})
	}
	for name, m := range map[string]configs.Model{
		"no template": {ChatTemplate: "{% for %}"}, "no file": {ChatTemplate: "missing.jinja"}, "no name": {ChatTemplateKwargs: map[string]string{"a b": "1"}},
	} {
		if err := setTemplate(&h, &model.Bundle{TokenizerConfig: tokenizer.Config{ChatTemplate: own}}, m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
