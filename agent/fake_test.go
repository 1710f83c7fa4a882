package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The fake template has one id per byte. Ids from 256 on are its special tokens.
const (
	idEnd = 256 + iota
	idSystem
	idUser
	idAssistant
)

type fakeRenderer struct{}

var roleIDs = map[string]int32{"system": idSystem, "user": idUser}

func (fakeRenderer) message(m data.Message) []int32 {
	ids := []int32{roleIDs[m.Role]}
	for _, b := range []byte(m.Content) {
		ids = append(ids, int32(b))
	}
	return append(ids, idEnd)
}

func (r fakeRenderer) Start(messages []data.Message) ([]int32, error) {
	var ids []int32
	for _, m := range messages {
		ids = append(ids, r.message(m)...)
	}
	return append(ids, idAssistant), nil
}

func (r fakeRenderer) Next(stoppedByEOS bool, lastID int32, messages []data.Message) ([]int32, error) {
	if stoppedByEOS != (lastID == idEnd) {
		return nil, errors.New("stoppedByEOS and lastID disagree")
	}
	var ids []int32
	if !stoppedByEOS {
		ids = append(ids, idEnd)
	}
	more, err := r.Start(messages)
	return append(ids, more...), err
}

func (fakeRenderer) StopTokens() []int32 { return []int32{idEnd} }

func (fakeRenderer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		switch id {
		case idEnd:
			b.WriteString("<end>")
		case idSystem:
			b.WriteString("<system>")
		case idUser:
			b.WriteString("<user>")
		case idAssistant:
			b.WriteString("<assistant>")
		default:
			b.WriteByte(byte(id))
		}
	}
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}

// fakeEngine returns the given replies, one per call.
type fakeEngine struct {
	replies []fakeReply
	context []int32
	open    int
	closed  int
	params  []engine.Params
	options engine.SessionOptions
}

type fakeReply struct {
	text string
	stop engine.StopReason // "" is StopEOS
	err  error
}

func (e *fakeEngine) Open(_ context.Context, o engine.SessionOptions) (*engine.Session, error) {
	e.open++
	e.options = o
	return engine.NewSession(o, e), nil
}

func (e *fakeEngine) Generate(ctx context.Context, _ *engine.Session, ids []int32, p engine.Params) (engine.Reply, error) {
	if err := ctx.Err(); err != nil {
		return engine.Reply{}, err
	}
	next := e.replies[len(e.params)]
	e.params = append(e.params, p)
	if next.err != nil {
		return engine.Reply{}, next.err
	}
	r := engine.Reply{Stop: next.stop, Version: 4}
	for _, b := range []byte(next.text) {
		r.IDs = append(r.IDs, int32(b))
	}
	if r.Stop == "" {
		r.Stop = engine.StopEOS
		r.IDs = append(r.IDs, idEnd)
	}
	for i := range r.IDs {
		r.LogProbs = append(r.LogProbs, -float32(i+1))
	}
	e.context = append(append(e.context, ids...), r.IDs...)
	return r, nil
}

func (e *fakeEngine) Close(*engine.Session) { e.closed++ }

// fakeClient is an instance that returns scripted results.
type fakeClient struct {
	obs      string
	resetErr error
	steps    []env.StepResult
	stepErr  error // error of all steps after the scripted ones
	onStep   func()
	index    int
	texts    []string
}

func (c *fakeClient) Reset(_ context.Context, index int) (env.Obs, error) {
	c.index = index
	return env.Obs{Text: c.obs}, c.resetErr
}

func (c *fakeClient) Step(_ context.Context, text string) (env.StepResult, error) {
	if c.onStep != nil {
		c.onStep()
	}
	c.texts = append(c.texts, text)
	if len(c.texts) > len(c.steps) {
		return env.StepResult{Action: "sent", Sent: true}, c.stepErr
	}
	return c.steps[len(c.texts)-1], nil
}

func (c *fakeClient) Close(context.Context) error { return nil }

func testSetup(e engine.Engine) Setup {
	return Setup{
		Engine:   e,
		Renderer: fakeRenderer{},
		Format:   react,
		Spec: env.Spec{
			Name:          "fake",
			SuccessReward: 0.5,
			Instruction:   func(format string) string { return "Play " + format + "." },
		},
		Options: Options{MaxTurns: 3, MaxNewTokens: 50, MaxContext: 1000, Temperature: 0.7, TopK: 5},
	}
}
