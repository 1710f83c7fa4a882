package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// contextEngine is a fakeEngine that records the ids of each context.
type contextEngine struct {
	fakeEngine
	contexts [][]int32
	restarts int
}

func (e *contextEngine) Restart(*engine.Session) error {
	e.restarts++
	e.contexts = append(e.contexts, e.context)
	e.context = nil
	return nil
}

func (e *contextEngine) all() [][]int32 { return append(e.contexts, e.context) }

// TestEveryTurnIsAContext checks that every context of an episode equals the
// ids that the engine received, and that its mask is 1 only on the sampled ids.
func TestEveryTurnIsAContext(t *testing.T) {
	e := &contextEngine{fakeEngine: fakeEngine{replies: []fakeReply{
		{text: "<plan>p</plan><action>left</action>"}, {text: "<action>up", stop: engine.StopLength}, {text: "<action>down</action>"},
	}}}
	c := &fakeClient{obs: "start", steps: []env.StepResult{
		{Observation: "wall", Reward: -1, Action: "left", Sent: true},
		{Observation: "still a wall", Reward: -1},
		{Observation: "goal", Reward: 1, Done: true, Action: "down", Sent: true},
	}}
	setup := testSetup(e)
	setup.Format = history{length: 1}
	setup.Options.MaxContext, setup.Options.InstructionRole = 2000, RoleSystem
	ep, err := RunEpisode(t.Context(), setup, Start{Task: data.Task{ID: "fake_5", Env: "fake"}, UID: "u", Client: c})
	if err != nil {
		t.Fatal(err)
	}
	later := func(past, now string, n string) string {
		return "<system>Play history.<end><user>The task began with:\nstart\n\nYou have taken " + past + "\n\nThis is step " + n + ". Now you see:\n" + now + "\n\n" + laterBlocks + "<end><assistant>"
	}
	want := []string{
		"<system>Play history.<end><user>start\n\n" + firstBlocks + "<end><assistant><plan>p</plan><action>left</action><end>",
		later("1 step.\n\nThe last 1 step:\n[Observation 1: as above, Action 1: 'left']", "wall", "2") + "<action>up",
		later("2 steps.\n\nThe last 1 step:\n[Observation 2: 'wall', Action 2: none, the reply named no action]", "still a wall", "3") + "<action>down</action><end>",
	}
	var got []string
	for i, s := range ep.ContextSpans() {
		got = append(got, fakeRenderer{}.Decode(ep.Tokens[s[0]:s[1]]))
		if diff := cmp.Diff(e.all()[i], ep.Tokens[s[0]:s[1]]); diff != "" {
			t.Errorf("context %d differs from the engine's input (-engine +episode):\n%s", i, diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	if e.open != 1 || e.closed != 1 || e.restarts != 2 {
		t.Errorf("%d sessions opened, %d closed, %d restarted", e.open, e.closed, e.restarts)
	}
	rows, err := data.Rows([]*data.Episode{ep})
	if err != nil {
		t.Fatal(err)
	}
	for i, wantReply := range []string{"<plan>p</plan><action>left</action><end>", "<action>up", "<action>down</action><end>"} {
		r := rows[i]
		var sampled []int32
		for j, id := range r.Tokens {
			if r.Mask[j] == 1 {
				sampled = append(sampled, id)
			}
			if (r.RolloutLogProbs[j] != 0) != (r.Mask[j] == 1) {
				t.Errorf("row %d: log-prob %g where the mask is %d", i, r.RolloutLogProbs[j], r.Mask[j])
			}
		}
		if got := (fakeRenderer{}).Decode(sampled); got != wantReply || r.UID != "u" || r.Context != i || r.Contexts != 3 {
			t.Errorf("row %d (uid %s, context %d of %d): sampled %q, want %q", i, r.UID, r.Context, r.Contexts, got, wantReply)
		}
		if p := ep.Turns[i].Prompt; len(p) != 2 || p[1].Role != RoleUser || !strings.Contains(want[i], p[1].Content) {
			t.Errorf("turn %d has the prompt %+v", i, p)
		}
	}
	messages := []data.Message{
		{Role: "system", Content: "Play history."}, {Role: "user", Content: "start"},
		{Role: "assistant", Content: "<plan>p</plan><action>left</action>"}, {Role: "user", Content: "wall"},
		{Role: "assistant", Content: "<action>up"}, {Role: "user", Content: "still a wall"}, {Role: "assistant", Content: "<action>down</action>"},
	}
	if diff := cmp.Diff(messages, ep.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if ep.Outcome != data.Success || len(e.params) != 3 || e.params[2].Turn != 2 || e.params[0].StopStrings[0] != "</action>" {
		t.Errorf("outcome %s, parameters %+v", ep.Outcome, e.params)
	}
}

// TestContextsWithoutRestart checks that every context has a new session if the engine has no Restart method.
func TestContextsWithoutRestart(t *testing.T) {
	e := &fakeEngine{replies: []fakeReply{{text: "<action>a</action>"}, {text: "<action>b</action>"}}}
	setup := testSetup(e)
	setup.Format = history{length: 1}
	c := &fakeClient{obs: "o", steps: []env.StepResult{{Observation: "p"}, {Done: true}}}
	ep, err := RunEpisode(t.Context(), setup, Start{Client: c})
	if err != nil || len(ep.Contexts) != 2 || e.open != 2 || e.closed != 2 {
		t.Errorf("%d contexts, %d sessions opened, %d closed, %v", len(ep.Contexts), e.open, e.closed, err)
	}
}

// TestContextLimitOfAContext checks that the limit applies to each context, not to the sum of all contexts.
func TestContextLimitOfAContext(t *testing.T) {
	act := fakeReply{text: "<action>x</action>"}
	long := strings.Repeat("y", 600)
	for name, tt := range map[string]struct {
		steps  []env.StepResult
		change func(*Setup)
		want   data.Outcome
		turns  int
	}{
		"several contexts":   {[]env.StepResult{{Observation: "o"}, {Observation: "o"}, {Done: true}}, nil, data.Done, 3},
		"a long observation": {[]env.StepResult{{Observation: long}}, nil, data.ContextLimit, 1},
		"a shortened one": {[]env.StepResult{{Observation: long}, {Observation: "o"}, {Done: true}},
			func(s *Setup) { s.Options.MaxObsTokens = 60 }, data.Done, 3},
	} {
		t.Run(name, func(t *testing.T) {
			setup := testSetup(&contextEngine{fakeEngine: fakeEngine{replies: []fakeReply{act, act, act}}})
			setup.Format = history{length: 2}
			setup.Options.MaxContext = 900
			if tt.change != nil {
				tt.change(&setup)
			}
			ep, err := RunEpisode(t.Context(), setup, Start{Client: &fakeClient{obs: "s", steps: tt.steps}})
			if err != nil || ep.Outcome != tt.want || len(ep.Turns) != tt.turns || len(ep.Contexts) != tt.turns {
				t.Errorf("%s after %d turns in %d contexts, %v; want %s after %d", ep.Outcome, len(ep.Turns), len(ep.Contexts), err, tt.want, tt.turns)
			}
			for _, s := range ep.ContextSpans() {
				if s[1]-s[0] > 900 {
					t.Errorf("a context has %d tokens", s[1]-s[0])
				}
			}
		})
	}
}

// prompts returns the prompts that a format writes for the given replies.
func prompts(t *testing.T, f Format, observations []string, replies ...string) []string {
	t.Helper()
	p := f.(Prompting).Begin(data.Task{ID: "maze_1"}, 3)
	s := PromptState{Observation: observations[0]}
	var out []string
	for i := 0; ; i++ {
		text, err := p.Prompt(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
		if i == len(replies) {
			return out
		}
		parsed := f.Parse(replies[i])
		s.Past = append(s.Past, Step{Observation: s.Observation, Reply: replies[i], Action: parsed.Action, Parsed: parsed.OK})
		s.Observation = observations[i+1]
	}
}

func TestHistoryLength(t *testing.T) {
	replies := []string{"<action>a</action>", "<action>b</action>", "<action>c</action>"}
	lines := []string{"[Observation 1: as above, Action 1: 'a']", "[Observation 2: 'o2', Action 2: 'b']", "[Observation 3: 'o3', Action 3: 'c']"}
	for _, tt := range []struct {
		length int
		want   []string // lines of the last prompt
	}{{0, nil}, {1, lines[2:]}, {2, lines[1:]}, {3, lines}, {9, lines}} {
		got := prompts(t, history{length: tt.length}, []string{"o1", "o2", "o3", "o4"}, replies...)[3]
		for i, line := range lines {
			if wantLine := i >= len(lines)-len(tt.want); strings.Contains(got, line) != wantLine {
				t.Errorf("length %d: the prompt contains %q: got %v, want %v\n%s", tt.length, line, !wantLine, wantLine, got)
			}
		}
		if !strings.Contains(got, "o1") || !strings.Contains(got, "Now you see:\no4") {
			t.Errorf("length %d: the task or the newest observation is missing\n%s", tt.length, got)
		}
		if blocks := firstBlocks; tt.length > 0 {
			blocks = laterBlocks
			if !strings.HasSuffix(got, blocks) {
				t.Errorf("length %d: no blocks\n%s", tt.length, got)
			}
		} else if !strings.HasSuffix(got, blocks) || strings.Contains(got, "steps") {
			t.Errorf("length 0 does not use the first layout\n%s", got)
		}
	}
}

// fakeSummarizer records its prompts.
type fakeSummarizer struct {
	mu      sync.Mutex // guards prompts
	prompts []string
	reply   func(n int) (string, error)
}

func (z *fakeSummarizer) Summarize(_ context.Context, prompt string) (string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.prompts = append(z.prompts, prompt)
	return z.reply(len(z.prompts))
}

func TestSummaries(t *testing.T) {
	z := &fakeSummarizer{reply: func(n int) (string, error) { return " notes " + strings.Repeat("é", 2000*(n-1)), nil }}
	f := fitted(t, env.FormatHistory, "maze", FormatOptions{Summarizer: z})
	got := prompts(t, f, []string{"o1", "o2", "o3", "o4"}, "<action>a</action>", "<action>b</action>", "hm")
	if !strings.Contains(got[1], "[Observation 1: as above, Action 1: 'a']") {
		t.Errorf("a single step is summarised:\n%s", got[1])
	}
	if len(z.prompts) != 2 || !strings.Contains(got[2], "2 steps so far, in short:\nnotes\n") || strings.Contains(got[2], "'b'") {
		t.Errorf("%d requests; the prompt after two steps:\n%s", len(z.prompts), got[2])
	}
	for i, want := range [][]string{
		{"o1", "as above, Action 1: 'a'", "[Observation 2: 'o2', Action 2: 'b']", "KeyEvents", "600 characters"},
		{"The notes after 2 steps:\nnotes", "[Observation 3: 'o3', Action 3: none"},
	} {
		for _, w := range want {
			if !strings.Contains(z.prompts[i], w) {
				t.Errorf("request %d lacks %q:\n%s", i, w, z.prompts[i])
			}
		}
	}
	if strings.Contains(z.prompts[1], "'b'") {
		t.Errorf("the second request repeats the notes:\n%s", z.prompts[1])
	}
	if n := strings.Count(got[3], "é"); n == 0 || n > 600 {
		t.Errorf("the prompt has a summary of %d characters, want 1 to 600", n)
	}
	if labels, most := summaryLabels("webshop"); !strings.Contains(labels, "PagesVisited") || most != 700 {
		t.Errorf("webshop has %s, %d", labels, most)
	}
}

// TestFailedSummaryFailsTheAttempt checks that a failed summary fails the
// attempt, because the prompt would differ without the summary.
func TestFailedSummaryFailsTheAttempt(t *testing.T) {
	for name, reply := range map[string]func(int) (string, error){
		"error": func(int) (string, error) { return "", errors.New("status 500") }, "empty": func(int) (string, error) { return " \n", nil },
	} {
		act := fakeReply{text: "<action>x</action>"}
		e := &contextEngine{fakeEngine: fakeEngine{replies: []fakeReply{act, act, act}}}
		setup := testSetup(e)
		setup.Format = history{length: 1, summarizer: &fakeSummarizer{reply: reply}}
		ep, err := RunEpisode(t.Context(), setup, Start{Client: &fakeClient{obs: "s", steps: []env.StepResult{{Observation: "o"}, {Observation: "o"}}}})
		if err == nil || ep.Outcome != data.EngineError || !strings.Contains(ep.Err, "write the prompt of turn 3: summarise 2 steps") || e.closed != e.open {
			t.Errorf("%s: %s, %v, %d sessions opened, %d closed", name, ep.Outcome, err, e.open, e.closed)
		}
	}
}

func TestStagedParse(t *testing.T) {
	for _, tt := range []struct{ env, text, action, sent string }{
		{"maze", "<plan>x</plan><action>move left</action><memory store>m</memory store>", "move left", "Action: move left"},
		{"maze", "<action>action_choice: move left\naction_parameters: {}</action>", "move left", "Action: move left"},
		{"maze", "<action>tool: search\nparameters: {}</action>", "tool: search\nparameters: {}", "Action: tool: search\nparameters: {}"},
		{"weather", "<action>tool: get_elevation\nparameters: {\"latitude\": 1}</action>", "tool: get_elevation\nparameters: {\"latitude\": 1}", `Action: get_elevation with Action Input: {"latitude": 1}`},
		{"weather", "<action>finish with Action Input: {}</action>", "finish with Action Input: {}", "Action: finish with Action Input: {}"},
		{"weather", "<action>tool: a b</action>", "", "<action>tool: a b</action>"},
		{"maze", "hm", "", "hm"},
	} {
		want := Parsed{Action: tt.action, Text: tt.sent, OK: tt.action != ""}
		if diff := cmp.Diff(want, fitted(t, env.FormatStaged, tt.env, FormatOptions{}).Parse(tt.text)); diff != "" {
			t.Errorf("%q in %s (-want +got):\n%s", tt.text, tt.env, diff)
		}
	}
}

func TestStagedMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.md")
	if err := os.WriteFile(path, []byte("an old note on Doors\n\n  \x1b[31mtorn"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := fitted(t, env.FormatStaged, "maze", FormatOptions{HistoryLength: 1, MemoryFile: path})
	got := prompts(t, f, []string{"o1", "o2", "o3", "o4"},
		"<plan>p <memory query>key</memory query></plan><action>a</action><memory store>the KEY\nis red</memory store><reflection>good <memory query>red</memory query></reflection>",
		"<plan><memory query>key</memory query><memory query> doors </memory query></plan><action>b</action><reflection><memory query>good</memory query></reflection>",
		"<action>c</action><plan>unclosed <memory query>key")
	for i, want := range [][]string{
		{"o1\n\nReply in"},
		// The plan's query runs before the lines are stored, the reflection's query after it.
		{"Your memory holds nothing on 'key'.", "Your memory on 'red':\n[E:maze_1#3|S:1] the KEY is red", "Action 1: 'a'"},
		{"Your memory on 'key':\n[E:maze_1#3|S:1] the KEY is red", "Your memory on 'doors':\nan old note on Doors", "Your memory on 'good':\n[E:maze_1#3|S:1] [Reflection] good", "[Observation 2: 'o2', Action 2: 'b']"},
		{"Now you see:\no4"},
	} {
		for _, w := range want {
			if !strings.Contains(got[i], w) {
				t.Errorf("prompt %d lacks %q:\n%s", i, w, got[i])
			}
		}
	}
	if strings.Contains(got[3], "memory on") || strings.Contains(got[3], "Action 2") {
		t.Errorf("the last prompt answers a query of another turn:\n%s", got[3])
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = "an old note on Doors\n\n  \x1b[31mtorn\n[E:maze_1#3|S:1] the KEY is red\n[E:maze_1#3|S:1] [Reflection] good\n"
	if string(b) != want {
		t.Errorf("the file contains %q, want %q", b, want)
	}

	// Another episode of the run finds only the lines that the file had before the run. A
	// later run finds all lines.
	query := "<plan><memory query>key</memory query></plan>"
	if got := prompts(t, f, []string{"o1", "o2"}, query)[1]; !strings.Contains(got, "nothing on 'key'") {
		t.Errorf("an episode finds lines that another episode stored:\n%s", got)
	}
	laterRun := fitted(t, env.FormatStaged, "maze", FormatOptions{MemoryFile: path})
	if got := prompts(t, laterRun, []string{"o1", "o2"}, query)[1]; !strings.Contains(got, "the KEY is red") {
		t.Errorf("a later run does not find the stored line:\n%s", got)
	}
}

func TestMemory(t *testing.T) {
	m := memory{episode: "e"}
	for i := range memoryLines + 5 {
		if err := m.store(i, strings.Repeat("x", i%7)+" word"); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.lines) != memoryLines || m.find("") != nil || m.find("nowhere") != nil {
		t.Errorf("memory has %d lines, want %d; find(\"\") = %q", len(m.lines), memoryLines, m.find(""))
	}
	hits := m.find(" WORD ")
	if len(hits) != memoryHits || !strings.HasPrefix(hits[0], "[E:e|S:104]") || !strings.HasPrefix(hits[2], "[E:e|S:102]") {
		t.Errorf("found %q, want the newest three", hits)
	}

	dir := t.TempDir()
	if _, err := openMemory(dir); err == nil {
		t.Error("a folder was accepted as a memory file")
	}
	if _, err := openMemory(filepath.Join(dir, "none", "memory.md")); err == nil {
		t.Error("a file in a missing folder was accepted")
	}
	long := filepath.Join(dir, "long.md")
	if err := os.WriteFile(long, []byte("first\n"+strings.Repeat("0123456789abcde\n", 1<<16)), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := openMemory(long)
	if err != nil || len(f.old) != memoryLines || f.old[0] != "0123456789abcde" {
		t.Errorf("a long file: %v", err)
	}
	if err := os.Remove(long); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.append("x"); err == nil {
		t.Error("a write error was not reported")
	}
}
