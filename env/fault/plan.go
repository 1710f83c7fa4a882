package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Plan describes the faults to inject. The zero value injects none.
type Plan struct {
	rules []rule
	seed  uint64
}

// The kinds of faults. A fault with an error status has the status as its kind.
const (
	hang      = "hang"      // no reply until the client gives up
	slow      = "slow"      // the request is executed after a pause
	truncate  = "truncate"  // the request is executed, and the reply is cut in half
	reset     = "reset"     // the request is executed, and the connection is reset without a reply
	duplicate = "duplicate" // a create or reset is executed twice
)

// rule is one fault with its probability per request.
type rule struct {
	kind   string
	p      float64
	status int           // status of the reply to a request that is not executed; 0 for other kinds
	pause  time.Duration // pause of the kind slow
}

// Help describes the notation of Parse, for the help of commands.
const Help = `comma-separated: STATUS:P (such as 500:0.05), hang:P, truncate:P, reset:P, duplicate:P, slow:DURATION[:P], seed=N; P is a probability per request`

// Parse parses a list such as
//
//	500:0.05,hang:0.01,slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.01,duplicate:0.01,seed=7
//
// Every rule is drawn independently for every request. The pauses of slow rules add up. Of
// the other rules that are drawn, the first in the list is injected. A hang or a reset has no
// pause: without a reply a client could not see the pause. A duplicate is injected
// only into create and reset: a step that is executed twice looks like normal play.
// GET /, the health check of clients, and GET /openapi.json get no faults, because clients
// do not count failures of these requests.
func Parse(spec string) (*Plan, error) {
	f := &Plan{seed: 1}
	if strings.TrimSpace(spec) == "" {
		return f, nil
	}
	for _, part := range strings.Split(spec, ",") {
		part = strings.TrimSpace(part)
		if digits, ok := strings.CutPrefix(part, "seed="); ok {
			seed, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("fault %q: the seed must be an integer of at least 0", part)
			}
			f.seed = seed
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		f.rules = append(f.rules, r)
	}
	return f, nil
}

func parseRule(part string) (rule, error) {
	kind, chance, _ := strings.Cut(part, ":")
	r := rule{kind: kind, p: 1}
	switch kind {
	case "":
		return r, fmt.Errorf("empty; want %s", Help)
	case hang, truncate, reset, duplicate:
	case slow:
		length, rest, more := strings.Cut(chance, ":")
		pause, err := time.ParseDuration(length)
		if err != nil || pause < 0 {
			return r, errors.New("want slow:DURATION or slow:DURATION:P, with a duration such as 200ms")
		}
		r.pause = pause
		if !more {
			return r, nil
		}
		chance = rest
	default:
		code, err := strconv.Atoi(kind)
		if err != nil {
			return r, fmt.Errorf("unknown fault; want %s", Help)
		}
		if code < 400 || code > 599 {
			return r, errors.New("the status must be 400 to 599")
		}
		r.kind, r.status = strconv.Itoa(code), code
	}
	p, err := strconv.ParseFloat(chance, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return r, fmt.Errorf("want a probability from 0 to 1 after the colon, got %q", chance)
	}
	r.p = p
	return r, nil
}

// Empty reports whether the plan injects no faults.
func (f *Plan) Empty() bool { return f == nil || len(f.rules) == 0 }

// draw returns the faults of one request. It draws a number for every rule, so that
// the result of one rule does not affect the other rules. repeatable is true if the
// request may be executed twice.
func (f *Plan) draw(rng *rand.Rand, repeatable bool) (pause time.Duration, strike *rule) {
	for i := range f.rules {
		r := &f.rules[i]
		if rng.Float64() >= r.p {
			continue
		}
		switch {
		case r.kind == slow:
			pause += r.pause
		case r.kind == duplicate && !repeatable:
		case strike == nil:
			strike = r
		}
	}
	if strike != nil && (strike.kind == hang || strike.kind == reset) {
		pause = 0 // a pause is not visible without a reply
	}
	return pause, strike
}
