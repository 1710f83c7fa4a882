package chat

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/data"
)

func user(s string) data.Message      { return data.Message{Role: "user", Content: s} }
func assistant(s string) data.Message { return data.Message{Role: "assistant", Content: s} }
func system(s string) data.Message    { return data.Message{Role: "system", Content: s} }

func renderer(t *testing.T, name string, extra map[string]any) (*Renderer, *Template, *tokenizer.Tokenizer, map[string]any) {
	t.Helper()
	tmpl, tok, config := loadModel(t, name)
	vars := config.TemplateVars()
	vars["date_string"] = "26 Jul 2024"
	for k, v := range extra {
		vars[k] = v
	}
	r, err := NewRenderer(tmpl, tok, vars, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r, tmpl, tok, vars
}

// appended plays a conversation as the agent does: prompt, reply with its end
// token, next turn, and so on.
func appended(t *testing.T, r *Renderer, tok *tokenizer.Tokenizer, messages []data.Message) []int32 {
	t.Helper()
	var ids []int32
	start := 0
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		var more []int32
		var err error
		if start == 0 {
			more, err = r.Start(messages[:i])
		} else {
			more, err = r.Next(true, ids[len(ids)-1], messages[start:i])
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, more...)
		ids = append(ids, tok.Encode(m.Content, tokenizer.Options{})...)
		ids = append(ids, r.StopTokens()[0])
		start = i + 1
	}
	if start < len(messages) {
		more, err := r.Next(true, ids[len(ids)-1], messages[start:])
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, more...)
	}
	return ids
}

var conversations = map[string][]data.Message{
	"one turn": {user("Where am I?"), assistant("Thought: look.\nAction: move up")},
	"open":     {system("You play."), user("Where am I?"), assistant("Action: move up"), user("You moved.\n\nAnd now?")},
	"long": {system("You play."), user("Where am I? "), assistant("Action: move up"), user("  You moved."), assistant("Action: move down\n\nYes"),
		user("<tool_response>\nx\n</tool_response>"), assistant("你好 😀"), user("1")},
	"two users": {user("a"), assistant("b"), user("c"), user("d"), assistant("e"), user("f")},
}

// TestAppended checks that the appended form equals the ids of the whole
// conversation rendered by the template.
func TestAppended(t *testing.T) {
	for _, name := range modelNames {
		t.Run(name, func(t *testing.T) {
			r, tmpl, tok, vars := renderer(t, name, nil)
			for label, messages := range conversations {
				open := messages[len(messages)-1].Role == "user"
				text, err := tmpl.Render(Input{Messages: messages, AddGenerationPrompt: open, Vars: vars})
				if err != nil {
					t.Fatal(err)
				}
				want := tok.Encode(text, tokenizer.Options{})
				if !open {
					// The documented differences are the template's text after the
					// last end token and Qwen3's empty thinking block.
					last := len(want) - 1
					for want[last] != r.StopTokens()[0] {
						last--
					}
					if name == "llama3" { // llama3's template always adds the generation prompt
						last = slices.Index(want, r.StopTokens()[0])
						last += 1 + slices.Index(want[last+1:], r.StopTokens()[0])
					}
					want = want[:last+1]
					if name == "qwen3" {
						want = without(want, tok.Encode("<think>\n\n</think>\n\n", tokenizer.Options{}))
					}
				}
				if diff := cmp.Diff(want, appended(t, r, tok, messages)); diff != "" {
					t.Errorf("%s (-template +appended):\n%s\ntext %q", label, diff, text)
				}
			}
		})
	}
}

func without(ids, drop []int32) []int32 {
	for i := 0; i+len(drop) <= len(ids); i++ {
		if slices.Equal(ids[i:i+len(drop)], drop) {
			return slices.Concat(ids[:i], ids[i+len(drop):])
		}
	}
	return ids
}

// TestRewritten checks a documented difference: Qwen3's template drops old
// thinking, and the appended form keeps it.
func TestRewritten(t *testing.T) {
	r, tmpl, tok, vars := renderer(t, "qwen3", nil)
	messages := []data.Message{user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c")}
	text, err := tmpl.Render(Input{Messages: messages, AddGenerationPrompt: true, Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "hm") {
		t.Fatalf("the template's text contains old thinking: %q", text)
	}
	got := tok.Decode(appended(t, r, tok, messages), false)
	want := strings.Replace(text, "\nb<", "\n<think>\nhm\n</think>\n\nb<", 1)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	quiet, _, _, _ := renderer(t, "qwen3", map[string]any{"enable_thinking": false})
	ids, err := quiet.Next(true, quiet.StopTokens()[0], []data.Message{user("c")})
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode(ids, false); got != "\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" {
		t.Errorf("Next with enable_thinking=false returned %q", got)
	}
}

// chatML is a template in ChatML form. With a small tokenizer, these tests need no
// downloads.
const chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func small(t *testing.T, src string, vars map[string]any, stops ...int32) (*Renderer, *tokenizer.Tokenizer, error) {
	t.Helper()
	tok, err := tokenizer.TrainBPE([]string{"user assistant move up down"}, 280, []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"})
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRenderer(tmpl, tok, vars, time.Now(), stops...)
	return r, tok, err
}

// TestStops checks that StopTokens lists each token that ends a reply once, and the
// template's end token first.
func TestStops(t *testing.T) {
	_, tok, err := small(t, chatML, nil)
	if err != nil {
		t.Fatal(err)
	}
	start, _ := tok.TokenToID("<|im_start|>")
	end, _ := tok.TokenToID("<|im_end|>")
	text, _ := tok.TokenToID("<|endoftext|>")
	for _, c := range []struct {
		name        string
		eos         string
		given, want []int32
	}{
		{"only the template's", "<|im_end|>", nil, []int32{end}},
		{"eos_token is another", "<|endoftext|>", nil, []int32{end, text}},
		{"the model lists two", "<|im_end|>", []int32{end, text}, []int32{end, text}},
		{"the model lists one of three", "<|endoftext|>", []int32{start}, []int32{end, text, start}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _, err := small(t, chatML, map[string]any{"eos_token": c.eos}, c.given...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.StopTokens()); diff != "" {
				t.Errorf("stop tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	r, tok, err := small(t, chatML, map[string]any{"eos_token": "<|endoftext|>"})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.TokenToID("<|im_end|>")
	eos, _ := tok.TokenToID("<|endoftext|>")
	if diff := cmp.Diff([]int32{end, eos}, r.StopTokens()); diff != "" {
		t.Errorf("stop tokens (-want +got):\n%s", diff)
	}
	const turn = "\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct {
		name    string
		stopped bool
		last    int32
		want    string
	}{
		{"end token sampled", true, end, turn},
		{"cut by length", false, 100, "<|im_end|>" + turn},
		{"cut by length at an end token's id", false, end, "<|im_end|>" + turn},
		{"another stop token sampled", true, eos, "<|im_end|>" + turn},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids, err := r.Next(c.stopped, c.last, []data.Message{user("hi")})
			if err != nil {
				t.Fatal(err)
			}
			if got := tok.Decode(ids, false); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for name, messages := range map[string][]data.Message{"none": nil, "a reply": {assistant("x")}} {
		if _, err := r.Next(true, end, messages); err == nil {
			t.Errorf("messages %s: no error", name)
		}
	}
	if got := r.Decode([]int32{eos, end}); got != "" {
		t.Errorf("Decode of special tokens: got %q, want \"\"", got)
	}
}

func TestTrajectory(t *testing.T) {
	r, tok, err := small(t, chatML, nil)
	if err != nil {
		t.Fatal(err)
	}
	no := false
	messages := []data.Message{
		system("s"), user("rules"), {Role: "assistant", Content: "OK", Loss: &no}, user("go"), assistant("move up"), user("moved"), assistant("move down"), user("end"),
	}
	ids, mask, err := r.Trajectory(messages)
	if err != nil {
		t.Fatal(err)
	}
	var masked, whole []int32
	for i, id := range ids {
		whole = append(whole, id)
		if mask[i] == 1 {
			masked = append(masked, id)
		}
	}
	if got, want := tok.Decode(masked, false), "move up<|im_end|>move down<|im_end|>"; got != want {
		t.Errorf("tokens with mask 1: got %q, want %q", got, want)
	}
	text, err := r.render(messages, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, tok.Decode(whole, false)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	short, _, err := r.Trajectory(messages[:5])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(short, ids[:len(short)]) || short[len(short)-1] != r.StopTokens()[0] {
		t.Error("the ids of the first five messages are not a prefix of all ids, or do not end with the end token")
	}
	for name, bad := range map[string][]data.Message{
		"no reply": {user("a")}, "no messages": nil, "reply first": {assistant("a")}, "two replies": {user("a"), assistant("b"), assistant("c")},
	} {
		if _, _, err := r.Trajectory(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTrims(t *testing.T) {
	r, tok, err := small(t, strings.ReplaceAll(chatML, "m.content", "m.content|trim"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ids, _, err := r.Trajectory([]data.Message{user(" a "), assistant("\n b ")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Decode(ids, false), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnusableTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		vars map[string]any
	}{
		"no end token":              {"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", nil},
		"replies dropped":           {"{{ messages[0].content }}", nil},
		"replies rewritten":         {"{% for m in messages %}{{ m.content | upper }}<|im_end|>{% endfor %}", nil},
		"an exception":              {"{{ raise_exception('never') }}", nil},
		"eos not in the vocabulary": {chatML, map[string]any{"eos_token": "</s>"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := small(t, c.src, c.vars); err == nil {
				t.Error("no error")
			}
		})
	}
}
