package fault

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Plan is what a server does wrong on purpose. The zero value is nothing.
type Plan struct {
	rules []rule
	seed  uint64
}

// rule is one thing that goes wrong, with its probability per request.
type rule struct {
	kind   kind
	p      float64
	status int           // status
	pause  time.Duration // slow
}

type kind int

const (
	status    kind = iota // an error status, the request not carried out
	hang                  // no reply until the client gives up
	slow                  // a pause before the request is carried out
	truncate              // carried out, the reply broken off half way
	reset                 // carried out, the connection reset without a reply
	duplicate             // a create or reset carried out twice
)

// kinds names those that have a name, as they are written and counted. A
// status is written as its number.
var kinds = map[string]kind{"hang": hang, "slow": slow, "truncate": truncate, "reset": reset, "duplicate": duplicate}

// name is how faults of this rule are counted.
func (r rule) name() string {
	for name, k := range kinds {
		if k == r.kind {
			return name
		}
	}
	return strconv.Itoa(r.status)
}

// Help describes the form Parse reads, for a command's help.
const Help = `comma-separated: STATUS:P (such as 500:0.05), hang:P, truncate:P, reset:P, duplicate:P, slow:DURATION[:P], seed=N; P is a probability per request`

// Parse reads a list such as
//
//	500:0.05,hang:0.01,slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.01,duplicate:0.01,seed=7
//
// Every rule is drawn for every request on its own; slow rules add up, and of
// the others the first that strikes, in the order written, is carried out. There
// is no pause before a hang or a reset, which leave no reply to see it by. A
// duplicate strikes a create or a reset alone: nobody could tell a step that
// was made twice from a game that moved on. What no
// client counts is spared: the greeting on GET /, so that a probe tells a bad
// server from one that is gone, and GET /openapi.json.
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
				return nil, fmt.Errorf("fault %q: the seed is a whole number, 0 or more", part)
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
		return rule{}, fmt.Errorf("no such fault; want %s", Help)
	}
	if code < 400 || code > 599 {
		return rule{}, fmt.Errorf("a status to fail with is 400 to 599")
	}
	p, err := probability(rest)
	return rule{kind: status, p: p, status: code}, err
}

func probability(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("want a probability from 0 to 1 after the colon, not %q", s)
	}
	return p, nil
}

// Empty reports whether nothing goes wrong.
func (f *Plan) Empty() bool { return f == nil || len(f.rules) == 0 }

// draw decides what happens to one request. rng is used for every rule
// whatever strikes, so that one rule's luck does not shift another's.
// repeatable says that the request may be carried out twice.
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
		pause = 0 // nobody could tell that there was one before a reply that never comes
	}
	return pause, strike
}
