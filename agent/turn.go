package agent

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// reset resets the environment to the task.
func (p *player) reset(ctx context.Context) error {
	var obs env.Obs
	err := p.onInstance(ctx, func() (err error) {
		obs, err = env.ResetTask(ctx, p.Client, p.Task)
		return err
	})
	if err != nil {
		return err
	}
	p.started, p.ep.FirstObservation = true, obs.Text
	if p.OnReset != nil {
		if err := p.OnReset(ctx, obs.Text); err != nil {
			return err
		}
	}
	p.ep.Instruction = Instruction(p.Task, p.Spec, p.Format, p.Options.Instruction)
	return nil
}

// appendPrompt appends ids that the model did not generate.
func (p *player) appendPrompt(ids []int32) {
	if p.prompter != nil {
		p.ep.Contexts = append(p.ep.Contexts, len(p.ep.Tokens))
	}
	p.ep.Tokens = append(p.ep.Tokens, ids...)
	p.ep.Mask = append(p.ep.Mask, make([]uint8, len(ids))...)
	p.ep.LogProbs = append(p.ep.LogProbs, make([]float32, len(ids))...)
}

// generate appends ids to the session, samples a reply and records it.
func (p *player) generate(ctx context.Context, ids []int32, turn int) (engine.Reply, error) {
	o := p.Options
	began := time.Now()
	stops := p.Renderer.StopTokens()
	if o.IgnoreEOS {
		stops = nil
	}
	reply, err := p.Engine.Generate(ctx, p.Session, ids, engine.Params{
		MaxNew:      o.MaxNewTokens,
		Temperature: o.Temperature,
		Greedy:      o.Greedy,
		TopP:        o.TopP,
		TopK:        o.TopK,
		StopTokens:  stops,
		StopStrings: slices.Concat(p.Format.StopStrings(), o.StopStrings),
		Turn:        turn,
	})
	if err != nil {
		return reply, fmt.Errorf("turn %d: generate: %w", turn+1, err)
	}
	if len(reply.IDs) != len(reply.LogProbs) {
		return reply, fmt.Errorf("turn %d: the engine gave %d ids but %d log-probs", turn+1, len(reply.IDs), len(reply.LogProbs))
	}
	start := len(p.ep.Tokens)
	p.ep.Tokens = append(p.ep.Tokens, reply.IDs...)
	p.ep.LogProbs = append(p.ep.LogProbs, reply.LogProbs...)
	for range reply.IDs {
		p.ep.Mask = append(p.ep.Mask, 1)
	}
	for i := range p.ep.Turns {
		p.ep.Turns[i].Behind += reply.Version - p.ep.WeightVersion
	}
	p.ep.WeightVersion = reply.Version

	textIDs := reply.IDs
	if reply.Stop == engine.StopEOS && len(textIDs) > 0 {
		textIDs = textIDs[:len(textIDs)-1] // the stop token is not part of the text
	}
	t := data.Turn{
		Start: start, End: len(p.ep.Tokens), Text: p.Renderer.Decode(textIDs),
		Kept: reply.Kept, Stop: string(reply.Stop), Unjudged: true, GenMillis: millis(began), Prompt: p.lastPrompt,
		Behind: reply.Behind,
	}
	p.ep.Turns = append(p.ep.Turns, t)
	p.ep.Messages = append(p.ep.Messages, data.Message{Role: "assistant", Content: t.Text})
	return reply, nil
}

// step sends the reply to the environment. The episode's reward is the reward of the
// last step (AgentGym's rule, spec 3.4), because some servers report running
// scores, which must not be summed.
func (p *player) step(ctx context.Context, t *data.Turn) (Parsed, error) {
	parsed := p.Format.Parse(t.Text)
	t.Parsed, t.Action = parsed.OK, parsed.Action
	began := time.Now()
	var res env.StepResult
	err := p.onInstance(ctx, func() (err error) {
		res, err = p.sendStep(ctx, parsed.Text)
		return err
	})
	t.EnvMillis = millis(began)
	if res.Sent {
		t.Action = res.Action
	}
	if err != nil {
		return parsed, err
	}
	t.Observation, t.Reward, t.Done, t.Refused = res.Observation, res.Reward, res.Done, !res.Sent
	t.Unjudged = false
	p.ep.Reward = res.Reward
	p.answered++
	if parsed.OK {
		p.unparsed = 0
	} else {
		p.unparsed++
	}
	return parsed, nil
}

// ended returns the outcome if the episode ends after turn t, otherwise "".
func (p *player) ended(t *data.Turn, parsed Parsed) data.Outcome {
	switch o := p.Options; {
	case t.Done, o.FinalEnds && parsed.Final:
		return data.Done
	case o.ParseLimit > 0 && p.unparsed >= o.ParseLimit:
		return data.ParseLimit
	case len(p.ep.Turns) >= o.MaxTurns:
		return data.TurnLimit
	}
	return ""
}

// observe appends the observation of turn t to the conversation and returns the
// ids of the next prompt.
func (p *player) observe(t *data.Turn, reply engine.Reply) ([]int32, error) {
	last := reply.IDs[len(reply.IDs)-1]
	next := func(text string) ([]int32, error) {
		return p.Renderer.Next(reply.Stop == engine.StopEOS, last, []data.Message{{Role: RoleUser, Content: text}})
	}
	text, err := p.shorten(t, next)
	if err != nil {
		return nil, err
	}
	ids, err := next(text)
	if err != nil {
		return nil, p.observationError(err)
	}
	p.ep.Messages = append(p.ep.Messages, data.Message{Role: RoleUser, Content: text})
	return ids, nil
}

// shorten returns the observation of turn t, shortened to MaxObsTokens in its middle: its
// start usually reports what happened, and its end lists the state or the available
// actions. The function render returns the ids of a message with the given text.
func (p *player) shorten(t *data.Turn, render func(text string) ([]int32, error)) (text string, err error) {
	if p.Options.MaxObsTokens <= 0 {
		return t.Observation, nil
	}
	frame := -1 // number of tokens that the template puts around any observation; -1: not yet known
	text, t.Truncated, err = truncate(t.Observation, p.Options.MaxObsTokens, TruncateMiddle, func(text string) (int, error) {
		if frame < 0 {
			empty, err := render("")
			if err != nil {
				return 0, err
			}
			frame = len(empty)
		}
		ids, err := render(text)
		return len(ids) - frame, err
	})
	if err != nil {
		return "", p.observationError(err)
	}
	return text, nil
}

func (p *player) observationError(err error) error {
	return fmt.Errorf("render the observation of turn %d: %w", len(p.ep.Turns), err)
}

func millis(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Millisecond) }

// cutMark marks the place where text was removed from an observation.
const cutMark = "\n[… observation shortened …]\n"

// truncate shortens text to at most limit tokens by removing text on a side:
// TruncateLeft, TruncateMiddle or TruncateRight. It reports whether it removed text.
func truncate(text string, limit int, side string, count func(string) (int, error)) (string, bool, error) {
	n, err := count(text)
	if err != nil || n <= limit {
		return text, false, err
	}
	runes := []rune(text)
	keep := len(runes)
	for {
		// Estimate the length from the tokens per character of the last try.
		keep = min(keep*limit/n, keep-1-keep/20)
		if keep <= len(cutMark) {
			break
		}
		head := keep - keep/2
		switch side {
		case TruncateLeft:
			head = 0
		case TruncateRight:
			head = keep
		}
		short := string(runes[:head]) + cutMark + string(runes[len(runes)-(keep-head):])
		if n, err = count(short); err != nil {
			return text, false, err
		}
		if n <= limit {
			return short, true, nil
		}
	}
	// The mark would take most of the limit: keep only the start or the end.
	for keep = min(len(runes), limit*utf8.UTFMax); keep > 0; keep /= 2 {
		short := string(runes[:keep])
		if side == TruncateLeft {
			short = string(runes[len(runes)-keep:])
		}
		if n, err = count(short); err != nil || n <= limit {
			return short, true, err
		}
	}
	return "", true, nil
}
