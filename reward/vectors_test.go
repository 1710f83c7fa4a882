package reward

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// The vectors are from spec 12.6. Where upstream is defective, the row has the intended value, and a comment
// gives the value of upstream.

func TestNormalizeAction(t *testing.T) {
	for in, want := range map[string]string{ // upstream: gotodesk1, clickbuynow, seass\path
		"Go to desk 1": "go to desk 1", "Click [Buy Now]!": "click buy now", `SeaSS \path`: "seass path", "  a \n b ": "a b",
	} {
		if got := normalizeAction(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestAgentGymFormat(t *testing.T) {
	a := agentGym{registry.Values{}}
	think, memory, plan, act := "<think>t</think>", "<memory>m</memory>", "<plan>p</plan>", "<act>a\nb</act>"
	for _, c := range []struct {
		text string
		want float64
	}{
		{"", -.5},
		{think + act, .25},
		{act + think, .25},
		{think + memory + plan + act, .333333},
		{think + "\n" + memory + plan + think + " " + act, 1},
		{"<think>" + memory + plan + "</think>" + act, .333333},
		{plan + act + memory + think, .333333},
		{act, -.5},
		{think + "<act>open", -.5},
	} {
		if got := a.format(c.text); !near(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	a.v[checkAllTags.Key] = false
	for text, want := range map[string]float64{think + " \n" + act: 1, think + "x" + act: -.5, act + think: -.5} {
		if got := a.format(text); got != want {
			t.Errorf("%q without all tags: %v, want %v", text, got, want)
		}
	}
}

func TestAgentGymLength(t *testing.T) {
	a := agentGym{registry.Values{}}
	for words, want := range map[int]float64{0: -.25, 1: .135714, 10: .232143, 34: .489286, 35: .5, 65: .5, 66: .494231, 98: .309615, 130: .125, 500: .125} {
		if got := a.length("<think>" + strings.Repeat("w ", words) + "</think>"); !near(got, want) {
			t.Errorf("%d words: %v, want %v", words, got, want)
		}
	}
	a.v[targetWords.Key] = 0
	if got := a.length("<think>w</think>"); got != .125 {
		t.Errorf("without a target: %v", got)
	}
	a.v[penaltyIfMissing.Key] = false
	if got := a.length("no thought"); got != .125 {
		t.Errorf("without a thought: %v", got)
	}
}

func TestAgentGymSimilarity(t *testing.T) {
	a := agentGym{registry.Values{}}
	acts := func(list ...string) string { return "<act>" + strings.Join(list, "</act> <act>") + "</act>" }
	for _, c := range []struct {
		text, truth string
		want        float64
	}{
		{acts("a", "b", "c"), `["a","c"]`, 1},
		{acts("x", "a", "y", "c"), `["a","b","c"]`, .333333},
		{"", `["a"]`, 0},
		{acts("a"), "", .5},
		{acts("a"), "env", .5},
		{"<action>Go to desk 1</action>", `["go to  desk 1"]`, 1},
		{"<act>go to desk1</act>", `["go to desk 1"]`, 0}, // upstream: 1
	} {
		if got := a.similarity(c.text, c.truth); !near(got, c.want) {
			t.Errorf("%q against %s: %v, want %v", c.text, c.truth, got, c.want)
		}
	}
}

func TestAgentGym(t *testing.T) {
	s := Sample{Turns: []data.Turn{
		{Text: "<think>go</think><act>left</act>"},
		{Text: "<think>go on</think><act>right</act>", Reward: 1},
	}}
	if got := scoreOf(t, "agentgym", nil, s); !near(got.Value, .511071) || got.Extra["env"] != 1 {
		t.Errorf("default: %+v, want .511071", got)
	}
	s.GroundTruth = `["left","right"]`
	if got := scoreOf(t, "agentgym", nil, s).Value; !near(got, .686071) {
		t.Errorf("with truth: %v, want .686071", got)
	}
	p := registry.Values{}
	p[envScale.Key] = 40.0
	if got := scoreOf(t, "agentgym", p, s); got.Extra["env"] != 5 {
		t.Errorf("clipped: %v, want 5", got.Extra["env"])
	}
	if got := scoreOf(t, "agentgym", p, Sample{Turns: []data.Turn{}}); got.Value != 0 {
		t.Errorf("no reply: %v", got)
	}
}

func TestNormalizeAnswer(t *testing.T) {
	for in, want := range map[string]string{
		"The  Beatles!": "beatles", "an apple, a day": "apple day", "don't": "dont", "A-B c": "ab c", "by the book": "book", "“the” a_b": "“ ” ab", "Thé": "thé",
	} {
		if got := normalizeAnswer(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestQA(t *testing.T) {
	upstream := registry.Values{}
	upstream["min_answer_tags"] = 2
	partly := registry.Values{}
	partly["format_score"] = .2
	whole := registry.Values{}
	whole["min_answer_tags"] = 0
	tag := func(s string) string { return "<answer>" + s + "</answer>" }
	for _, c := range []struct {
		fn     string
		params registry.Values
		text   string
		truth  string
		want   float64
	}{
		{"qa_em", upstream, tag("Paris"), "paris", 0},
		{"qa_em", upstream, tag("x") + tag(" The Paris. "), `["paris","lyon"]`, 1},
		{"qa_em", upstream, tag("x") + tag("Paris France"), "paris", 0},
		{"subem", upstream, tag("x") + tag("Paris France"), "paris", 1},
		{"qa_em", nil, tag("Paris"), "paris", 1},
		{"qa_em", nil, "first\n" + tag("Lyon") + tag("\nParis\n"), `{"target": ["paris"]}`, 1},
		{"qa_em", nil, "Paris", "paris", 0},
		{"qa_em", whole, "Paris!", "paris", 1},
		{"qa_em", partly, tag("Rome"), "paris", .2},
		{"qa_em", partly, "Rome", "paris", 0},
		{"subem", partly, tag("Rome"), "paris", .2},
		{"f1", nil, "the quick brown fox", "quick red fox", .666667},
		{"f1", nil, tag("quick"), `["slow","quick"]`, 1},
		{"bleu_addone", nil, "the cat sat on the mat", "the cat sat on the red mat", .711803},
		{"bleu_addone", nil, "dogs", "the cat sat", 0},
		{"bleu_addone", nil, "", "the cat sat", 0},
	} {
		if got := scoreOf(t, c.fn, c.params, Sample{Response: c.text, GroundTruth: c.truth}).Value; !near(got, c.want) {
			t.Errorf("%s of %q against %s: %v, want %v", c.fn, c.text, c.truth, got, c.want)
		}
	}
	if got := f1("", "x"); got != 0 {
		t.Errorf("F1 of an empty text and x is %v, want 0", got)
	}
	if got := f1("The", "a"); got != 1 {
		t.Errorf("F1 of two articles is %v, want 1", got)
	}
}

func TestGSM8K(t *testing.T) {
	for _, c := range []struct {
		method func(string) (string, bool)
		text   string
		want   string
	}{
		{gsm8kStrict, "a #### 1,234.5 b", "1234.5"},
		{gsm8kStrict, "#### -7\n#### 8", "-7"},
		{gsm8kStrict, "####5", ""},
		{gsm8kStrict, "#### $70", "70"},
		{gsm8kStrict, "#### 42.", "42"},          // upstream: "42."
		{gsm8kFlexible, "x 3 and 4.", "4"},       // upstream: "4."
		{gsm8kFlexible, ". .", ""},               // upstream: "."
		{gsm8kFlexible, "it is 1,234 .", "1234"}, // upstream: "1,234"
		{gsm8kFlexible, "none", ""},
	} {
		got, ok := c.method(c.text)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q (%v), want %q", c.text, got, ok, c.want)
		}
	}
	p := registry.Values{}
	p["format_score"] = .1
	for text, want := range map[string]float64{"#### 42.": 1, "#### 41": .1, "42": 0} {
		if got := scoreOf(t, "gsm8k", p, Sample{Response: text, GroundTruth: "42"}).Value; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	p["gsm8k_method"] = "flexible"
	if got := scoreOf(t, "gsm8k", p, Sample{Response: "so 42", GroundTruth: "42"}).Value; got != 1 {
		t.Errorf("flexible: %v", got)
	}
}

func TestNormalizeMath(t *testing.T) {
	for in, want := range map[string]string{
		`\frac12`: `\frac{1}{2}`, "0.5": `\frac{1}{2}`, "1/2": `\frac{1}{2}`, ".5": `\frac{1}{2}`, `\sqrt2`: `\sqrt{2}`, `50\%`: "50",
		`3\text{ cm}`: "3", "k = 7": "7", `90^\circ`: "90", "1,000": "1,000", `\frac1{72}`: `\frac{1}{72}`, `\dfrac{1}{2}`: `\frac{1}{2}`,
		`\left( 1, 2 \right)`: "(1,2)", "x/y": "x/y", `\tfrac34 + .25`: `\frac{3}{4}+0.25`,
	} {
		if got := normalizeMath(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestMath(t *testing.T) {
	for _, c := range []struct {
		text, truth string
		want        float64
	}{
		{`so \boxed{\frac12}`, "1/2", 1},
		{`\boxed 7$`, "7", 1},
		{`\fbox{3}`, "3", 1}, // upstream: 0
		{`\boxed{1} then \boxed{2}`, "2", 1},
		{`\boxed{1} then \boxed{2}`, "1", 0},
		{`\boxed{\frac{1}{\sqrt{2}}`, "1", 0}, // the brace is not closed
		{"no box: 3", "3", 0},
		{`\boxed{3}`, `it is \boxed{3}`, 1},
		// The values are equal, the texts differ. Upstream: 0.
		{`\boxed{0.25}`, `\frac{1}{4}`, 1},
		{`\boxed{1,000}`, "1000", 1},
		{`\boxed{\frac{2}{4}}`, `\frac{1}{2}`, 1},
		{`\boxed{\frac{\sqrt{2}}{2}}`, `\frac{1}{\sqrt{2}}`, 1},
		{`\boxed{x(x+1)}`, "x^2+x", 1},
		{`\boxed{x^2+1}`, "x^2+x", 0},
		{`\boxed{2\sqrt{3}}`, `\sqrt{12}`, 1},
		{`\boxed{(0.5, 2)}`, `\left(\frac12, 2\right)`, 1},
		{`\boxed{[0, 1)}`, "(0, 1)", 0},
		{`\boxed{[0, 1]}`, "[0, 1]", 1},
		{`\boxed{0.333}`, `\frac{1}{3}`, 0},
		{`\boxed{1, 2}`, "1", 0},
		{`\boxed{\exp(x)}`, "e^x", 1},
		{`\boxed{\ln e}`, "1", 1},
		{`\boxed{x(y+1)}`, "xy+x", 1},
		{`\boxed{2\frac12}`, `2\frac{1}{2}`, 1},
		{`\boxed{e^2}`, "e^3", 0},
	} {
		if got := scoreOf(t, "math", nil, Sample{Response: c.text, GroundTruth: c.truth}); got.Value != c.want || got.Extra["undecided"] != 0 {
			t.Errorf("%s against %s: %+v, want %v", c.text, c.truth, got, c.want)
		}
	}
	for answer, truth := range map[string]string{`\infty`: "5", `\text{Tuesday}`: `\text{Monday}`, `\sqrt{-1-x^2}`: "x", "east": "west", "on": "no", "ACB": "ABC", `2\frac{1}{2}`: `\frac{5}{2}`, `3\frac{1}{3}`: "1", "i^2": "-1", "lnx": `\ln x`, "2e3": "2000"} {
		if got := scoreOf(t, "math", nil, Sample{Response: `\boxed{` + answer + `}`, GroundTruth: truth}); got.Value != 0 || got.Extra["undecided"] != 1 {
			t.Errorf("%s against %s: %+v, want undecided", answer, truth, got)
		}
	}
}

func TestCountdown(t *testing.T) {
	upstream := registry.Values{}
	upstream["format_score"] = .1
	for _, c := range []struct {
		text string
		want float64
	}{
		{"<answer>4*6*1</answer>", 1},
		{"<answer>4*6</answer>", .1},
		{"<answer>4+6+1</answer>", .1},
		{"<answer>4*6*1</answer>\nthat is it", 0},
		{"<answer>4*6**1</answer>", 1},
		{"<answer>4*6/1 = 24</answer>", .1},
		{"<answer>4*6*1 + (</answer>", .1},
		{"<answer>1</answer> <answer> 4 * 6 / 1 </answer>\n", 1},
		{"<answer>__import__('os')</answer>", .1},
	} {
		if got := scoreOf(t, "countdown", upstream, Sample{Response: c.text, GroundTruth: `{"target": 24, "numbers": [4, 6, 1]}`}).Value; got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	reply := Sample{ID: "7", Response: "<answer>(6-1)*4</answer>", GroundTruth: `{"target": 20, "numbers": [1, 4, 6]}`}
	if got := scoreOf(t, "countdown", nil, reply).Value; got != 1 {
		t.Errorf("a reply without the prompt scores %v, want 1", got)
	}
	scorer, err := Open("countdown", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, truth := range []string{"24", "{}", `{"target": 24}`} {
		reply.GroundTruth = truth
		if _, err := scorer.Score(t.Context(), []Sample{reply}); err == nil || !strings.Contains(err.Error(), "sample 7") {
			t.Errorf("ground truth %s: %v", truth, err)
		}
	}
}

func TestMultiply(t *testing.T) {
	upstream := registry.Values{}
	upstream["format_score"] = .1
	for text, want := range map[string]float64{
		"<answer>42</answer>": 1, "<answer> 041 </answer>": .1, "<answer>4 2</answer>": 0, "<answer>1</answer><answer>42</answer>": 1,
		"<answer>\n42</answer>": 0, "none": 0, "<answer>+4_2</answer>": 1, "<answer>42.0</answer>": 0,
	} {
		if got := scoreOf(t, "multiply", upstream, Sample{Response: text, GroundTruth: "42"}).Value; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestLengths(t *testing.T) {
	p := registry.Values{}
	p["max_length"], p["min_length"] = 10, 4
	for tokens, want := range map[int]float64{0: 4, 4: 0, 10: 0, 12: 2} {
		if got := scoreOf(t, "length", p, Sample{Tokens: tokens}).Value; got != want {
			t.Errorf("%d tokens: %v, want %v", tokens, got, want)
		}
	}
	for kind, want := range map[string]float64{"linear": 3, "quadratic": 9, "logarithmic": 1.386294} {
		p["penalty_type"] = kind
		if got := scoreOf(t, "length", p, Sample{Tokens: 13}).Value; !near(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	p["penalty_type"], p["unit"] = "linear", "words"
	if got := scoreOf(t, "length", p, Sample{Response: "a b", Tokens: -1}).Value; got != 2 {
		t.Errorf("words: %v", got)
	}
	p["unit"] = "characters"
	if got := scoreOf(t, "length", p, Sample{Response: "äöü", Tokens: -1}).Value; got != 1 {
		t.Errorf("characters: %v", got)
	}
	p["unit"] = "tokens"
	scorer, err := Open("length", p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scorer.Score(t.Context(), []Sample{{Tokens: -1}}); err == nil {
		t.Error("uncounted tokens: no error")
	}
}

// TestOverlong checks the penalty of DAPO, eq. 13, with L_max 100 and L_cache 20.
func TestOverlong(t *testing.T) {
	p := registry.Values{}
	p["max_length"], p["overlong_buffer"], p["overlong_factor"] = 100, 20, 2.0
	for tokens, want := range map[int]float64{0: 0, 80: 0, 90: -1, 95: -1.5, 100: -2, 500: -2} {
		if got := scoreOf(t, "overlong", p, Sample{Tokens: tokens}).Value; got != want {
			t.Errorf("%d tokens: %v, want %v", tokens, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	p := registry.Values{}
	p["patterns"] = []string{"<think>.*</think>", "<action>.*</action>"}
	s := Sample{Response: "<think>a</think>"}
	if got := scoreOf(t, "format", p, s).Value; got != .5 {
		t.Errorf("a reply that matches one of two patterns scores %v, want 0.5", got)
	}
	s.Turns = []data.Turn{{Text: "<think>a</think><action>b</action>"}, {Text: "<action>c</action>"}}
	if got := scoreOf(t, "format", p, s).Value; got != .75 {
		t.Errorf("two replies with three of four matches score %v, want 0.75", got)
	}
}

func TestDataSource(t *testing.T) {
	for _, c := range []struct {
		s    Sample
		want float64
	}{
		{Sample{Source: "searchR1_nq", Response: "<answer>Paris</answer>", GroundTruth: "paris"}, 1},
		{Sample{Source: "bamboogle", Response: "<answer>Paris</answer>", GroundTruth: "rome"}, 0},
		{Sample{Source: "openai/gsm8k", Response: "#### 3", GroundTruth: "3"}, 1},
		{Sample{Source: "lighteval/MATH", Response: `\boxed{3}`, GroundTruth: "3"}, 1},
		{Sample{Source: "maze", EnvReward: -1, Turns: []data.Turn{{}}}, -1},
	} {
		if got := scoreOf(t, "data_source", nil, c.s).Value; got != c.want {
			t.Errorf("%s: %v, want %v", c.s.Source, got, c.want)
		}
	}
	scorer, err := Open("data_source", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scorer.Score(t.Context(), []Sample{{Source: "numina", GroundTruth: "x"}}); err == nil || !strings.Contains(err.Error(), `"numina"`) {
		t.Errorf("unknown source: error %v", err)
	}
}

// TestSacreBLEU checks that bleu equals the results of sacreBLEU (testdata/bleu.py).
func TestSacreBLEU(t *testing.T) {
	b, err := os.ReadFile("testdata/bleu.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Answer  string   `json:"answer"`
		Targets []string `json:"targets"`
		Score   float64  `json:"score"`
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 30 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if got := sacreBLEU(c.Answer, c.Targets); !near(got, c.Score) {
				t.Errorf("%q against %q: %v, want %v", c.Answer, c.Targets, got, c.Score)
			}
		})
	}
}
