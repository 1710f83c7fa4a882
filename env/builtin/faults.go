package builtin

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Faults is what a server does wrong on purpose. The zero value is nothing.
type Faults struct {
	rules []faultRule
	seed  uint64
}

// faultRule is one thing that goes wrong, with its probability per request.
type faultRule struct {
	kind   faultKind
	p      float64
	status int           // faultStatus
	pause  time.Duration // faultSlow
}

type faultKind int

const (
	faultStatus   faultKind = iota // an error status, the request not carried out
	faultHang                      // no reply until the client gives up
	faultSlow                      // a pause before the request is carried out
	faultTruncate                  // carried out, the reply broken off half way
	faultReset                     // carried out, the connection reset without a reply
)

// FaultsHelp describes the form ParseFaults reads, for a command's help.
const FaultsHelp = `comma-separated: STATUS:P (such as 500:0.05), hang:P, truncate:P, reset:P, slow:DURATION[:P], seed=N; P is a probability per request`

// ParseFaults reads a list such as
//
//	500:0.05,hang:0.01,slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.01,seed=7
//
// Every rule is drawn for every request on its own; slow rules add up, and of
// the others the first that strikes, in the order written, is carried out.
// The greeting on GET / is spared, so that a probe tells a bad server from
// one that is gone.
func ParseFaults(spec string) (*Faults, error) {
	f := &Faults{seed: 1}
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
		rule, err := parseFault(part)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		f.rules = append(f.rules, rule)
	}
	return f, nil
}

func parseFault(part string) (faultRule, error) {
	name, rest, _ := strings.Cut(part, ":")
	switch name {
	case "":
		return faultRule{}, fmt.Errorf("empty; want %s", FaultsHelp)
	case "hang", "truncate", "reset":
		p, err := probability(rest)
		return faultRule{kind: map[string]faultKind{"hang": faultHang, "truncate": faultTruncate, "reset": faultReset}[name], p: p}, err
	case "slow":
		length, chance, some := strings.Cut(rest, ":")
		pause, err := time.ParseDuration(length)
		if err != nil || pause < 0 {
			return faultRule{}, fmt.Errorf("want slow:DURATION or slow:DURATION:P, with a duration such as 200ms")
		}
		p := 1.0
		if some {
			if p, err = probability(chance); err != nil {
				return faultRule{}, err
			}
		}
		return faultRule{kind: faultSlow, p: p, pause: pause}, nil
	}
	status, err := strconv.Atoi(name)
	if err != nil {
		return faultRule{}, fmt.Errorf("no such fault; want %s", FaultsHelp)
	}
	if status < 400 || status > 599 {
		return faultRule{}, fmt.Errorf("a status to fail with is 400 to 599")
	}
	p, err := probability(rest)
	return faultRule{kind: faultStatus, p: p, status: status}, err
}

func probability(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("want a probability from 0 to 1 after the colon, not %q", s)
	}
	return p, nil
}

// draw decides what happens to one request. rng is used for every rule
// whatever strikes, so that one rule's luck does not shift another's.
func (f *Faults) draw(rng *rand.Rand) (pause time.Duration, strike *faultRule) {
	for i := range f.rules {
		r := &f.rules[i]
		if rng.Float64() >= r.p {
			continue
		}
		if r.kind == faultSlow {
			pause += r.pause
		} else if strike == nil {
			strike = r
		}
	}
	return pause, strike
}
