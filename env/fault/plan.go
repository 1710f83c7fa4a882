package fault

import (
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

// rule is one fault with its probability per request.
type rule struct {
	kind   kind
	p      float64
	status int           // status
	pause  time.Duration // slow
}

type kind int

const (
	status    kind = iota // an error status; the request is not executed
	hang                  // no reply until the client gives up
	slow                  // a pause before the request is executed
	truncate              // executed, the reply is cut in half
	reset                 // executed, the connection is reset without a reply
	duplicate             // a create or reset is executed twice
)

// kinds lists the named kinds as they are written and counted. A status is written as
// its number.
var kinds = map[string]kind{"hang": hang, "slow": slow, "truncate": truncate, "reset": reset, "duplicate": duplicate}

// name returns the name under which faults of this rule are counted.
func (r rule) name() string {
	for name, k := range kinds {
		if k == r.kind {
			return name
		}
	}
	return strconv.Itoa(r.status)
}

// Help describes the notation of Parse, for the help of commands.
const Help = `comma-separated: STATUS:P (such as 500:0.05), hang:P, truncate:P, reset:P, duplicate:P, slow:DURATION[:P], seed=N; P is a probability per request`

// Parse parses a list such as
//
//	500:0.05,hang:0.01,slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.01,duplicate:0.01,seed=7
//
// Every rule is drawn independently for every request. Pauses of slow rules add up; of
// the other rules the first one drawn, in the order written, is injected. There is no
// pause before a hang or a reset, because without a reply it could not be seen. A
// duplicate is injected only into create and reset: a step that was executed twice could
// not be told from normal play. GET /, the health check of clients, and GET
// /openapi.json get no faults, because clients do not count their failures.
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
	name, rest, _ := strings.Cut(part, ":")
	if name == "" {
		return rule{}, fmt.Errorf("empty; want %s", Help)
	}
	k, named := kinds[name]
	switch {
	case named && k == slow:
		length, chance, some := strings.Cut(rest, ":")
		pause, err := time.ParseDuration(length)
		if err != nil || pause < 0 {
			return rule{}, fmt.Errorf("want slow:DURATION or slow:DURATION:P, with a duration such as 200ms")
		}
		p := 1.0
		if some {
			if p, err = probability(chance); err != nil {
				return rule{}, err
			}
		}
		return rule{kind: slow, p: p, pause: pause}, nil
	case named:
		p, err := probability(rest)
		return rule{kind: k, p: p}, err
	}
	code, err := strconv.Atoi(name)
	if err != nil {
		return rule{}, fmt.Errorf("unknown fault; want %s", Help)
	}
	if code < 400 || code > 599 {
		return rule{}, fmt.Errorf("the status must be 400 to 599")
	}
	p, err := probability(rest)
	return rule{kind: status, p: p, status: code}, err
}

func probability(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("want a probability from 0 to 1 after the colon, got %q", s)
	}
	return p, nil
}

// Empty reports whether the plan injects no faults.
func (f *Plan) Empty() bool { return f == nil || len(f.rules) == 0 }

// draw returns the faults of one request. It draws a number for every rule, so that
// the result of one rule does not affect the others. repeatable reports that the
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
		pause = 0 // not visible without a reply
	}
	return pause, strike
}
