package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openmanus/openmanus/data"
)

// testEpisode returns an episode of two turns, the second without an action.
func testEpisode(text string) *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: "maze_3" + text, Env: "maze" + text, Index: 3}, UID: "u" + text, Sample: 1, Seed: 7,
		Tokens: []int32{10, 11, 12, 13, 14}, Mask: []uint8{0, 1, 1, 0, 1}, LogProbs: []float32{0, -0.5, -2.25, 0, -1e-7}, Contexts: []int{0, 3},
		Turns: []data.Turn{
			{Start: 1, End: 3, Text: "go up" + text, Action: "up" + text, Parsed: true, Stop: "eos" + text, Observation: "a wall" + text, Reward: -1, Truncated: true},
			{Start: 4, End: 5, Text: "hm" + text, Stop: "length", Done: true, Reward: 0.5, Prompt: []data.Message{{Role: "user" + text, Content: "once more" + text}}},
		},
		Messages: []data.Message{
			{Role: "system", Content: "be brief" + text}, {Role: "user", Content: "find it" + text}, {Role: "assistant", Content: "go up" + text},
		},
		Exchanges: []data.Exchange{{Method: "POST", Path: "/step?id=1" + text, Body: `{"action":"up"}` + text, Status: 200, Reply: `{"reward":-1}` + text, Millis: 1.5}, {Method: "GET", Path: "/", Err: "refused" + text}},
		Reward:    0.5, Outcome: data.Done, Err: text, Server: text, WeightVersion: 4, Attempts: 2, Millis: 12,
	}
}

func render(t testing.TB, o Options, episodes ...*data.Episode) string {
	t.Helper()
	var b bytes.Buffer
	p, err := NewPage(&b, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range episodes {
		if err := p.Add("step_1.jsonl", i, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func letters(ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = fmt.Sprintf("<%d>\n", id)
	}
	return out
}

func TestPageShowsAnEpisode(t *testing.T) {
	page := render(t, Options{Title: "a dump", Note: "a note", Pieces: letters}, testEpisode(""))
	for _, want := range []string{
		"<title>a dump</title>", `<p class="note">a note</p>`,
		`<article id="e0" data-task="maze_3" data-env="maze" data-outcome="done" data-reward="0.5" data-turns="2" data-sample="1" data-source="step_1.jsonl" data-origin="step 1">`,
		"<dd>5, 3 sampled, in 2 contexts</dd>", "<summary>the prompt of this turn</summary>", "<h4>user</h4><pre>\nonce more</pre>", "<dd>maze, index 3</dd>", "<dd>1 of u</dd>", "<dd>7</dd>", "<dd>12 ms</dd>",
		"<h3>system</h3><pre>\nbe brief</pre>", "<h3>user</h3><pre>\nfind it</pre>",
		"turn 1 <span class=\"facts\">reward -1; 2 tokens, log-prob mean -1.375, lowest -2.250; stop eos;",
		"<pre class=\"reply\" data-start=\"1\" data-end=\"3\">\ngo up</pre>", "action <code>up</code>",
		"observation (the model saw a shortened one)</h4><pre class=\"observation\">\na wall</pre>",
		"turn 2 <span class=\"facts\">reward 0.5, done; 1 tokens", "no action found",
		"all 5 tokens", "2 exchanges", "POST /step?id=1 <span class=\"facts\">200, 1.5 ms</span>", "{&#34;action&#34;:&#34;up&#34;}", "no reply, 0.0 ms", "refused",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "assistant") {
		t.Error("the messages before the turns contain a reply")
	}
	s := streams(t, page)
	if len(s) != 1 || s[0].Mask != "01101" || !slices.Equal(s[0].IDs, []int32{10, 11, 12, 13, 14}) ||
		fmt.Sprint(s[0].LP) != "[0 -0.5 -2.25 0 -1e-07]" || s[0].Text[1] != "<11>\n" {
		t.Errorf("tokens %+v", s)
	}
	if s := streams(t, render(t, Options{}, testEpisode(""))); s[0].Text != nil {
		t.Errorf("texts without a tokenizer: %q", s[0].Text)
	}
}

type stream struct {
	IDs  []int32
	Mask string
	LP   []float64
	Text []string
}

var (
	scripts = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)
	styles  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	tags    = regexp.MustCompile(`<(/?[a-zA-Z!][a-zA-Z0-9]*)([^>]*)>`)
)

// streams reads the token data as the page's script does.
func streams(t testing.TB, page string) []stream {
	t.Helper()
	var out []stream
	for _, m := range scripts.FindAllStringSubmatch(page, -1) {
		if m[1] != ` type="application/json"` {
			continue
		}
		var s stream
		if err := json.Unmarshal([]byte(m[2]), &s); err != nil {
			t.Fatalf("%v in %.200s", err, m[2])
		}
		out = append(out, s)
	}
	return out
}

// hostile lists texts that try to break out of HTML, a script or a terminal line.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`,
	`</pre></article></main><script src="http://x/"></script>`, `<!--<script>`, `-->`, `]]>`, `</style><style>*{}`, `</title><h1>`,
	"a\x00b<b>", "\xff\xfe<i>\xc3", "\u2028\u2029\u202e", "${alert(1)}`", `{{.}}`, "\x1b[31m\x7f\u009b", `\u003cscript\u003e`, `&lt;script&gt;`, `javascript:alert(1)`,
}

// TestHostileTextStaysText checks that pages of hostile and of harmless texts have the
// same tags and attribute names.
func TestHostileTextStaysText(t *testing.T) {
	shape := func(page string) []string {
		page = scripts.ReplaceAllString(page, "<script$1>") // the token data is checked below; the script of the page is constant
		var out []string
		for _, m := range tags.FindAllStringSubmatch(page, -1) {
			names := regexp.MustCompile(`([a-z-]+)="[^"]*"`).ReplaceAllString(m[2], "$1")
			out = append(out, m[1]+names)
		}
		return out
	}
	want := shape(render(t, Options{Title: "x", Note: "x", Pieces: letters}, testEpisode("x")))
	if len(want) < 60 {
		t.Fatalf("only %d tags", len(want))
	}
	for _, text := range hostile {
		pieces := func(ids []int32) []string { return slices.Repeat([]string{text}, len(ids)) }
		e := testEpisode(text)
		e.Outcome = data.Outcome(text)
		page := render(t, Options{Title: text, Note: text, Pieces: pieces}, e)
		if got := shape(page); !slices.Equal(got, want) {
			t.Errorf("%q changes the page:\n%q\n%q", text, got, want)
		}
		if n := len(scripts.FindAllString(page, -1)); n != 2 {
			t.Errorf("%q: %d scripts", text, n)
		}
		if i := strings.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == 0x202e || r == 0x9b }); i >= 0 || !utf8.ValidString(page) {
			t.Errorf("%q: control character at %d, valid %v", text, i, utf8.ValidString(page))
		}
		if s := streams(t, page); len(s) != 1 || s[0].Text[0] != visible(text) {
			t.Errorf("%q: tokens %+v", text, s)
		}
	}
}

// TestPageIsSelfContained checks that a browser makes no request for the page, and
// that the content security policy allows its script and its styles.
func TestPageIsSelfContained(t *testing.T) {
	page := render(t, Options{Title: "x"}, testEpisode(""))
	code := regexp.MustCompile(`(?m)^ *//.*$`).ReplaceAllString(page, "")
	for _, bad := range []string{"http:", "https:", "//", "src=", "href=", "@import", "url(", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick="} {
		if strings.Contains(code, bad) {
			t.Errorf("the page contains %s", bad)
		}
	}
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("the page has no content security policy")
	}
	allowed := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy[1])
	if !strings.HasPrefix(allowed, "default-src 'none';") || strings.Contains(allowed, "unsafe") {
		t.Errorf("policy %s", allowed)
	}
	all := scripts.FindAllStringSubmatch(page, -1)
	if own := all[len(all)-1]; own[1] != "" || !strings.Contains(allowed, "script-src '"+hashOf(own[2])+"'") {
		t.Errorf("the policy does not allow the script: %s", allowed)
	}
	if style := styles.FindStringSubmatch(page); style == nil || !strings.Contains(allowed, "style-src '"+hashOf(style[1])+"'") {
		t.Errorf("the policy does not allow the styles: %s", allowed)
	}
}

// TestPageOfInconsistentEpisodes checks the page of episodes with inconsistent fields.
func TestPageOfInconsistentEpisodes(t *testing.T) {
	e := testEpisode("")
	e.Turns[0].Start, e.Turns[0].End = -5, 1<<40
	e.Turns[1].Start, e.Turns[1].End = 4, 2
	e.LogProbs = []float32{float32(math.NaN()), float32(math.Inf(-1))}
	e.Mask = nil
	page := render(t, Options{}, e, &data.Episode{})
	if s := streams(t, page); len(s) != 2 || s[0].Mask != "" || len(s[1].IDs) != 0 {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{`data-start="0" data-end="5"`, `data-start="4" data-end="4"`, `id="e1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	var b bytes.Buffer
	if err := Text(&b, "", 0, e); err != nil || !strings.Contains(b.String(), "turn 2: reward 0.5, done; 0 tokens;") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestScriptParses checks the syntax of the page's script. It is skipped without node.
func TestScriptParses(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	path := filepath.Join(t.TempDir(), "page.js")
	if err := os.WriteFile(path, []byte(pageJS), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(node, "--check", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkPage writes pages of 500 episodes with 2000 tokens each.
func BenchmarkPage(b *testing.B) {
	e := testEpisode("")
	for range 2000 {
		e.Tokens, e.Mask, e.LogProbs = append(e.Tokens, 7), append(e.Mask, 1), append(e.LogProbs, -0.31262)
	}
	for b.Loop() {
		b.SetBytes(int64(len(render(b, Options{Pieces: letters}, slices.Repeat([]*data.Episode{e}, 500)...))))
	}
}
