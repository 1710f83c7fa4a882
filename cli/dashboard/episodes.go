package dashboard

import (
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// The bounds of the memory for episodes: about 10 MB.
const (
	maxRunning = 256  // running episodes that are followed; others are only counted
	maxEnded   = 24   // ended episodes that stay readable
	maxTurns   = 12   // newest turns that are kept of an episode
	maxText    = 1500 // bytes that are kept of a reply or an observation
)

// episodes follows running episodes. It implements rollout.Observer.
type episodes struct {
	now func() time.Time

	mu      sync.Mutex                     // guards the fields below
	next    int                            // id of the next episode
	of      map[rollout.Running]*following // running episodes; nil for those that are only counted
	follows int                            // running episodes that are followed
	ended   []*following                   // newest last
	changed bool                           // since the last take
}

// following is an episode. Its JSON is its line in the list.
type following struct {
	ID      int     `json:"id"`
	Env     string  `json:"env"`
	Task    string  `json:"task"`
	Sample  int     `json:"sample"`
	Attempt int     `json:"attempt"`
	Turns   int     `json:"turns"`
	Action  string  `json:"action"` // of the newest turn
	Reward  float64 `json:"reward"`
	Outcome string  `json:"outcome"` // "": running
	Seconds float64 `json:"seconds"` // duration so far

	began time.Time
	first string
	kept  []turn // the newest turns
}

// turn is a turn of the detailed view.
type turn struct {
	Nr          int     `json:"nr"`
	Text        string  `json:"text"`
	Action      string  `json:"action"`
	Parsed      bool    `json:"parsed"`
	Observation string  `json:"observation"`
	Reward      float64 `json:"reward"`
}

// cut shortens a text to at most n bytes, at the border of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Began follows an episode if there are not too many.
func (e *episodes) Began(r rollout.Running, first string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[rollout.Running]*following{}
	}
	e.changed = true
	if e.follows == maxRunning {
		e.of[r] = nil
		return
	}
	e.next++
	e.follows++
	e.of[r] = &following{ID: e.next, Env: r.Env, Task: cut(r.Task, 200), Sample: r.Sample, Attempt: r.Attempt, began: e.now(), first: cut(first, maxText)}
}

// Turn adds a turn.
func (e *episodes) Turn(r rollout.Running, t *data.Turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.of[r]
	if f == nil {
		return
	}
	f.Turns++
	f.Action, f.Reward = cut(t.Action, 200), t.Reward
	f.kept = append(f.kept, turn{f.Turns, cut(t.Text, maxText), f.Action, t.Parsed, cut(t.Observation, maxText), t.Reward})
	if len(f.kept) > maxTurns {
		f.kept = slices.Delete(f.kept, 0, 1)
	}
	e.changed = true
}

// Ended moves an episode to the ended ones.
func (e *episodes) Ended(r rollout.Running, ep *data.Episode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.of[r]
	delete(e.of, r)
	e.changed = true
	if f == nil {
		return
	}
	e.follows--
	f.Outcome, f.Reward, f.Seconds = string(ep.Outcome), ep.Reward, e.now().Sub(f.began).Seconds()
	e.ended = append(e.ended, f)
	e.ended = e.ended[max(0, len(e.ended)-maxEnded):]
}

// list is the state of the episodes as a message.
type list struct {
	Running  int         `json:"running"` // all running episodes
	Episodes []following `json:"episodes"`
}

// take returns the list if it has changed since the last call, or if always is set.
func (e *episodes) take(always bool) (l list, changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.changed && !always {
		return l, false
	}
	if !always {
		e.changed = false
	}
	l = list{Running: len(e.of), Episodes: []following{}}
	for _, f := range e.of {
		if f == nil {
			continue
		}
		one := *f
		one.Seconds, one.kept = e.now().Sub(f.began).Seconds(), nil
		l.Episodes = append(l.Episodes, one)
	}
	slices.SortFunc(l.Episodes, func(a, b following) int { return a.ID - b.ID })
	for _, f := range slices.Backward(e.ended) {
		one := *f
		one.kept = nil
		l.Episodes = append(l.Episodes, one)
	}
	return l, true
}

// details is the reply to a request for an episode.
type details struct {
	following
	First string `json:"first"`
	Kept  []turn `json:"kept"`
}

// find returns the details of an episode. ok is false if it is not followed any more.
func (e *episodes) find(id int) (d details, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.of {
		if f != nil && f.ID == id {
			return details{*f, f.first, slices.Clone(f.kept)}, true
		}
	}
	for _, f := range e.ended {
		if f.ID == id {
			return details{*f, f.first, slices.Clone(f.kept)}, true
		}
	}
	return d, false
}
