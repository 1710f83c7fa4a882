package agent

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// staged is OpenManus-RL's modular format (spec 11.3): a reply contains a plan,
// an action, lines to store in memory and a reflection, and the plan and the
// reflection can query the memory. Every prompt has the answers to the queries,
// the last steps and the newest observation. A reply is processed in upstream's
// order: the plan's queries, then the stored lines, then the reflection and its
// queries.
//
// Differs from upstream in: answers appear in the next prompt (upstream adds
// them to the reply with the query, which is not read again); each episode has a
// separate memory (memory.go); tools are defined by the environment and called in
// its form, and an environment without tools receives the action unchanged
// (upstream sends nothing).
type staged struct {
	actionTags
	spec   env.Spec
	length int
	file   *memoryFile
}

func (staged) Name() string          { return env.FormatStaged }
func (staged) StopStrings() []string { return nil } // none: a reply may continue after its action

// Fit returns the format with the history length of o, and opens the memory file.
func (staged) Fit(spec env.Spec, o FormatOptions) (Format, error) {
	s := staged{actionTags: actionTags{spec.OwnTags}, spec: spec, length: o.HistoryLength}
	if o.MemoryFile != "" {
		var err error
		if s.file, err = openMemory(o.MemoryFile); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Parse parses a reply as action_tags does. If the action has an
// "action_choice:" line, that line is the action; if the action names a tool,
// the call is converted to the environment's form.
func (f staged) Parse(text string) Parsed {
	p := f.actionTags.Parse(text)
	if !p.OK || p.Final {
		return p
	}
	if _, rest, ok := strings.Cut(p.Action, "action_choice:"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		p.Action = strings.TrimSpace(line)
		p.Text = actionMark + " " + p.Action
		return p
	}
	if f.spec.ToolCall == nil || !strings.HasPrefix(p.Action, "tool:") {
		return p
	}
	name, input, _ := readCall(p.Action)
	call, ok := f.spec.ToolCall(name, input)
	if !ok {
		return Parsed{Text: text}
	}
	p.Text = call
	return p
}

// Begin returns a Prompter whose memory has the lines of the memory file at the start of the run.
func (f staged) Begin(task data.Task, sample int) Prompter {
	m := memory{episode: fmt.Sprintf("%s#%d", task.ID, sample), file: f.file}
	if f.file != nil {
		m.lines = append(m.lines, f.file.old...)
	}
	return &stagedPrompter{staged: f, memory: m}
}

const stagedBlocks = "Reply in these parts. First what you mean to do, between <plan> and </plan>. Then exactly one action, between <action> and </action>. " +
	"Then, where it helps, one line to remember, between <memory store> and </memory store>, " +
	"and what you learned from the last observation, between <reflection> and </reflection>. " +
	"To look something up, write <memory query>a word</memory query> in the plan or the reflection: the lines of your memory that hold the word are shown to you in the next step."

type stagedPrompter struct {
	staged
	memory memory
	first  string
}

// Prompt processes the newest reply and returns the user message of the next turn.
func (p *stagedPrompter) Prompt(_ context.Context, s PromptState) (string, error) {
	if len(s.Past) == 0 {
		p.first = s.Observation
		return p.first + "\n\n" + stagedBlocks, nil
	}
	answers, err := p.remember(len(s.Past), s.Past[len(s.Past)-1].Reply)
	if err != nil {
		return "", err
	}
	var past []string
	if p.length > 0 {
		past = append(past, lastSteps(s.Past, p.length))
	}
	past = append(past, answers...)
	return laterLayout(p.first, strings.Join(past, "\n\n"), s) + "\n\n" + stagedBlocks, nil
}

var (
	memoryQuery  = regexp.MustCompile(`(?s)<memory query>(.*?)</memory query>`)
	memoryResult = regexp.MustCompile(`(?s)<memory result>.*?</memory result>`)
)

// remember processes a reply and returns the answers to its queries.
func (p *stagedPrompter) remember(step int, reply string) (answers []string, err error) {
	ask := func(text string) {
		for _, m := range memoryQuery.FindAllStringSubmatch(text, -1) {
			answers = append(answers, p.answer(m[1]))
		}
	}
	if plan, ok := tagged(reply, "plan"); ok {
		ask(plan)
	}
	if text, ok := tagged(reply, "memory store"); ok && text != "" {
		if err := p.memory.store(step, text); err != nil {
			return nil, err
		}
	}
	if reflection, ok := tagged(reply, "reflection"); ok {
		clean := strings.TrimSpace(memoryResult.ReplaceAllString(memoryQuery.ReplaceAllString(reflection, ""), ""))
		if clean != "" {
			if err := p.memory.store(step, "[Reflection] "+clean); err != nil {
				return nil, err
			}
		}
		ask(reflection)
	}
	return answers, nil
}

func (p *stagedPrompter) answer(query string) string {
	hits := p.memory.find(query)
	if len(hits) == 0 {
		return fmt.Sprintf("Your memory holds nothing on '%s'.", oneLine(query))
	}
	return fmt.Sprintf("Your memory on '%s':\n%s", oneLine(query), strings.Join(hits, "\n"))
}
