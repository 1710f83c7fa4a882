package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

// usualContext is the default limit of a conversation in tokens, because the cache of a whole
// context of a long-context model does not fit into the memory of most machines.
const usualContext = 4096

func chatCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "chat",
		Usage:     "talk to a model or to the checkpoint of a run",
		ArgsUsage: "[MODEL|RUN]",
		Description: "Replies appear as they are generated. Ctrl-C stops a reply, a second Ctrl-C ends the program. /help lists the commands.\n" +
			"Without a terminal, every line of standard input is a message, and standard output has only the replies.",
		Flags: slices.Concat(flagsOf(chatKeys()), []cli.Flag{
			&cli.StringFlag{Name: "system", Usage: "system prompt"},
			&cli.BoolFlag{Name: "plain", Usage: "continue the texts without the chat template, as a base model does"},
			&cli.BoolFlag{Name: "whole-input", Usage: "standard input is one message"},
		}),
	}, 0, 1, runChat)
}

// chatKeys are the flags of chat that override keys.
func chatKeys() []keyFlag {
	return slices.Concat(modelKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "max-new-tokens", Value: 512, Usage: "maximum tokens of a reply"}, keys: "rollout.max_new_tokens"},
		{flag: &cli.IntFlag{Name: "max-context-tokens", Usage: "maximum tokens of the conversation; default: the model's limit, at most " + strconv.Itoa(usualContext)}, keys: "rollout.max_context_tokens"},
	}, samplingKeys())
}

func runChat(ctx context.Context, s *State, c *cli.Context) error {
	s.ConfigLevel("warn") // the log would appear between the messages
	cfg := schema.Defaults()
	f := flagFaults{}
	f.override(c, chatKeys(), &cfg, true)
	if name := c.Args().First(); name != "" {
		if c.IsSet("model") {
			f.add("model", "%s is given as well: remove one of them", name)
		}
		cfg.Model.Path = name
	}
	f.need("model", cfg.Model.Path, "a model or a run: openmanus chat MODEL")
	f.sampling(c)
	if c.Bool("plain") && c.String("system") != "" {
		f.add("system", "--plain uses no chat template, so there is no system prompt: remove one of them")
	}
	f.check(c, chatKeys(), &cfg)
	if err := f.err(); err != nil {
		return err
	}
	found, err := run.FindModel(ctx, &s.Host, cfg.Model.Path)
	if err != nil {
		return err
	}
	d, err := run.DescribeModel(ctx, &s.Host, cfg.Model.Path)
	if err != nil {
		return err
	}
	if cfg.Rollout.MaxContextTokens == 0 {
		cfg.Rollout.MaxContextTokens = min(usualContext, d.Config.MaxPositionEmbeddings)
	}
	if d.ChatTemplate == "" && !c.Bool("plain") {
		return errext.With(errext.Model, "--plain continues texts without a template", fmt.Errorf("model %s has no chat template", cfg.Model.Path))
	}
	r, err := s.openRun(ctx, cfg, chatKeys())
	if err != nil {
		return err
	}
	return r.Converse(ctx, run.ConverseOptions{System: c.String("system"), Plain: c.Bool("plain")}, func(conv *run.Conversation) error {
		t := &talk{State: s, conv: conv, in: s.lines(), person: s.Keyboard != nil}
		t.greet(found, d)
		if c.Bool("whole-input") {
			text, err := io.ReadAll(s.Stdin)
			if err != nil {
				return errext.With(errext.Input, "", err)
			}
			return t.say(ctx, strings.TrimSuffix(string(text), "\n"))
		}
		return t.loop(ctx)
	})
}

// talk is a conversation on the terminal or over pipes.
type talk struct {
	*State
	conv   *run.Conversation
	in     lineReader
	person bool // a person types; otherwise a pipe delivers the messages
	ctrlC  bool // the last input was Ctrl-C at the prompt
}

// note shows a message about the conversation, which is no part of it.
func (t *talk) note(format string, args ...any) {
	if !t.quiet {
		fmt.Fprintf(t.Stderr, "("+format+")\n", args...)
	}
}

// greet describes the model and the settings.
func (t *talk) greet(found run.Found, d *model.Description) {
	if !t.person {
		return
	}
	name := found.Name
	if found.Run != nil {
		name += fmt.Sprintf(", checkpoint of step %d", found.Step)
	}
	t.note("%s: %s of %.1f million parameters", name, d.Config.ModelType, float64(d.Parameters)/1e6)
	if found.Config != nil && len(found.Config.Env) > 0 {
		t.note("trained to act in %s; openmanus play %s shows an episode", found.Config.Env[0].Called(), errext.ShellQuote(found.Name))
	}
	if t.conv.Plain() {
		t.note("the model continues your text; no chat template is used")
	}
	t.note("/help lists the commands, /set shows the settings, Ctrl-C stops a reply, Ctrl-D ends")
}

func (t *talk) settings() string {
	s := t.conv.Sampling
	how := fmt.Sprintf("temperature %g, top-p %g, top-k %d", s.Temperature, s.TopP, s.TopK)
	if s.Greedy {
		how = "greedy"
	}
	return fmt.Sprintf("%s, seed %d, replies of at most %d tokens, %d of %d tokens of context used", how, s.Seed, s.MaxNewTokens, t.conv.Tokens(), t.conv.MaxContext())
}

// loop reads messages and commands until the end of the input.
func (t *talk) loop(ctx context.Context) error {
	for {
		text, err := t.message(ctx)
		switch {
		case errors.Is(err, errCtrlC) && !t.ctrlC:
			t.ctrlC = true
			t.note("Ctrl-C again or /exit ends the program")
			continue
		case errors.Is(err, errCtrlC), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		t.ctrlC = false
		switch {
		case strings.TrimSpace(text) == "":
		case strings.HasPrefix(text, "/"):
			end, err := t.command(text)
			if end || err != nil {
				return err
			}
		default:
			if err := t.say(ctx, text); err != nil {
				return err
			}
		}
	}
}

// quotes begin and end a message of several lines.
const quotes = `"""`

// message reads the next message. Between two lines with quotes it may have several lines.
func (t *talk) message(ctx context.Context) (string, error) {
	line, err := t.in.ReadLine(ctx, "> ")
	rest, block := strings.CutPrefix(line, quotes)
	if err != nil || !block {
		return line, err
	}
	lines := []string{}
	for {
		text, last := strings.CutSuffix(rest, quotes)
		if text != "" || len(lines) > 0 && !last {
			lines = append(lines, text)
		}
		if last {
			return strings.Join(lines, "\n"), nil
		}
		if rest, err = t.in.ReadLine(ctx, ". "); err != nil {
			if errors.Is(err, io.EOF) {
				err = errext.With(errext.Input, "", errors.New(`the input ends inside a message that began with """`))
			}
			return "", err
		}
	}
}

// say sends a message and shows the reply. Ctrl-C stops the reply.
func (t *talk) say(ctx context.Context, text string) error {
	reply, stop := context.WithCancel(ctx)
	defer stop()
	release := t.interrupts.Claim(func() bool {
		if !t.person || reply.Err() != nil { // the second Ctrl-C ends the program
			return false
		}
		stop()
		return true
	})
	defer release()
	var failed error
	said, err := t.conv.Say(reply, text, func(piece string) {
		if _, err := io.WriteString(t.Stdout, piece); err != nil && failed == nil {
			failed = err
			stop()
		}
	})
	stopped := err != nil && reply.Err() != nil && ctx.Err() == nil && failed == nil
	if !errors.Is(err, run.ErrContextFull) && (said.Tokens > 0 || stopped) {
		fmt.Fprintln(t.Stdout)
	}
	switch {
	case failed != nil:
		return errext.With(errext.Disk, "", failed)
	case stopped:
		t.note("stopped")
		return nil
	case errors.Is(err, run.ErrContextFull) && t.person:
		t.note("%v; /reset begins a new conversation", err)
		return nil
	case errors.Is(err, run.ErrContextFull):
		return errext.With(errext.Input, "raise --max-context-tokens, or send /reset before the message", err)
	case err != nil:
		return err
	}
	switch said.Stop {
	case engine.StopLength:
		t.note("the reply was cut after %d tokens; /set max_new_tokens N changes this limit", said.Tokens)
	case engine.StopContext:
		t.note("the context of %d tokens is full; /reset begins a new conversation", t.conv.MaxContext())
	}
	return nil
}

const chatHelp = `/reset           begin a new conversation
/system TEXT     set the system prompt and begin a new conversation
/set KEY VALUE   temperature, top_p, top_k, max_new_tokens, or seed (for the next conversation); /set shows the settings
/save FILE       write the conversation as JSON
/exit            end; Ctrl-D does the same
"""              begins and ends a message of several lines
`

// command runs a line that begins with a slash. In a pipe a wrong command is an error.
func (t *talk) command(line string) (end bool, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/exit", "/quit":
		return true, nil
	case "/help":
		fmt.Fprint(t.Stderr, chatHelp)
	case "/reset":
		t.conv.Reset()
		t.note("new conversation")
	case "/system":
		if t.conv.Plain() {
			err = errors.New("--plain uses no chat template, so there is no system prompt")
			break
		}
		t.conv.SetSystem(rest)
		t.note("new conversation")
	case "/set":
		err = t.set(rest)
	case "/save":
		err = t.save(rest)
	default:
		err = fmt.Errorf("unknown command %s; /help lists the commands, and a space before the slash makes it a message", name)
	}
	if err != nil && t.person {
		t.note("%v", err)
		return false, nil
	}
	return false, errext.WithDefault(errext.Input, err)
}

// set changes a sampling setting; an empty text shows the settings.
func (t *talk) set(text string) error {
	key, value, _ := strings.Cut(text, " ")
	value = strings.TrimSpace(value)
	s := &t.conv.Sampling
	number := func(lo, hi float64) (v float64, err error) {
		if v, err = strconv.ParseFloat(value, 64); err != nil || !(v >= lo && v <= hi) {
			err = fmt.Errorf("/set %s %s: want a number from %g to %g", key, value, lo, hi)
		}
		return v, err
	}
	whole := func(lo int) (v int, err error) {
		if v, err = strconv.Atoi(value); err != nil || v < lo {
			err = fmt.Errorf("/set %s %s: want a whole number of at least %d", key, value, lo)
		}
		return v, err
	}
	var err error
	switch key {
	case "":
	case "temperature":
		var v float64
		if v, err = number(0, 100); err == nil {
			if s.Greedy = v == 0; !s.Greedy {
				s.Temperature = v
			}
		}
	case "top_p":
		var v float64
		if v, err = number(0, 1); err == nil && v == 0 {
			err = errors.New("/set top_p 0: want a number above 0")
		}
		if err == nil {
			s.TopP = v
		}
	case "top_k":
		var v int
		if v, err = whole(0); err == nil {
			s.TopK = v
		}
	case "max_new_tokens":
		var v int
		if v, err = whole(1); err == nil {
			s.MaxNewTokens = v
		}
	case "seed":
		var v uint64
		if v, err = strconv.ParseUint(value, 10, 64); err == nil {
			s.Seed = v
		} else {
			err = fmt.Errorf("/set seed %s: want a whole number from 0 to %d", value, uint64(math.MaxUint64))
		}
	default:
		err = fmt.Errorf("unknown setting %q: temperature, top_p, top_k, max_new_tokens and seed exist", key)
	}
	if err == nil {
		t.note("%s", t.settings())
	}
	return err
}

// save writes the conversation as one JSON object with the list messages.
func (t *talk) save(file string) error {
	if file == "" {
		return errors.New("/save needs the name of a file")
	}
	messages := t.conv.Messages()
	if len(messages) == 0 {
		return errors.New("/save: the conversation is empty")
	}
	text, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	err = t.WriteFile(file, append(text, '\n'), false)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("/save: %s exists: choose another name", file)
	}
	if err != nil {
		return err
	}
	t.note("%d messages are in %s", len(messages), file)
	return nil
}
