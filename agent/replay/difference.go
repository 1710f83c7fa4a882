package replay

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// The parts of a turn that can differ, in the order in which they arise.
const (
	InPrompt      = "prompt ids" // the rendered messages
	InIDs         = "ids"        // the sampled tokens
	InMask        = "mask"
	InStop        = "stop"
	InText        = "text"
	InRequest     = "request"
	InAction      = "action"
	InObservation = "observation"
	InReward      = "reward"
	InDone        = "done"
	InReply       = "reply" // a recorded reply of the server does not match its checksum
	InMessages    = "messages"
	InOutcome     = "outcome"
)

var order = []string{
	InPrompt, InIDs, InMask, InStop, InText, InRequest, InAction, InObservation, InReward, InDone, InReply, InMessages, InOutcome,
}

// Difference is a difference between a replayed episode and the record.
type Difference struct {
	Turn     int    `json:"turn"` // number from 1; 0: before the first reply, -1: the whole episode
	What     string `json:"what"`
	At       int    `json:"at"` // for ids and mask, the index of the token; for texts, the first byte that differs
	Recorded string `json:"recorded"`
	Replayed string `json:"replayed"`
	// Margin is the log-prob margin of the sampler's token over the recorded token.
	Margin float64 `json:"margin,omitempty"`
}

// String returns one line.
func (d *Difference) String() string {
	where := fmt.Sprintf("turn %d", d.Turn)
	switch d.Turn {
	case 0:
		where = "before the first reply"
	case wholeEpisode:
		where = "at the end"
	}
	margin := ""
	if d.Margin != 0 {
		margin = fmt.Sprintf(" (won by %.3g)", d.Margin)
	}
	return fmt.Sprintf("%s: %s at %d: recorded %s, now %s%s", where, d.What, d.At, d.Recorded, d.Replayed, margin)
}

// wholeEpisode is the Turn of differences that concern the whole episode.
const wholeEpisode = -1

func (d *Difference) before(other *Difference) bool {
	position := func(d *Difference) []int {
		turn := d.Turn
		if turn == wholeEpisode {
			turn = math.MaxInt
		}
		return []int{turn, slices.Index(order, d.What), d.At}
	}
	return slices.Compare(position(d), position(other)) < 0
}

// findings collects the differences of one episode. The goroutines of the
// episode and of the engine add to it.
type findings struct {
	draws, nearTies atomic.Int64

	mu    sync.Mutex
	first *Difference // guarded by mu
}

func (f *findings) add(d Difference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil || d.before(f.first) {
		f.first = &d
	}
}

// texts compares two texts.
func (f *findings) texts(turn int, what, recorded, replayed string) {
	if recorded == replayed {
		return
	}
	at := 0
	for at < len(recorded) && at < len(replayed) && recorded[at] == replayed[at] {
		at++
	}
	f.add(Difference{Turn: turn, What: what, At: at, Recorded: around(recorded, at), Replayed: around(replayed, at)})
}

// values compares two comparable values.
func (f *findings) values(turn int, what string, recorded, replayed any) {
	if recorded != replayed {
		f.add(Difference{Turn: turn, What: what, Recorded: fmt.Sprint(recorded), Replayed: fmt.Sprint(replayed)})
	}
}

// series compares two series of tokens or mask entries. The argument from is
// the index of the first entry in the episode.
func series[T int32 | uint8](f *findings, turn int, what string, from int, recorded, replayed []T) {
	show := func(s []T, i int) string {
		if i >= len(s) {
			return "nothing"
		}
		return strconv.Itoa(int(s[i]))
	}
	for i := range max(len(recorded), len(replayed)) {
		if i >= len(recorded) || i >= len(replayed) || recorded[i] != replayed[i] {
			f.add(Difference{Turn: turn, What: what, At: from + i, Recorded: show(recorded, i), Replayed: show(replayed, i)})
			return
		}
	}
}

// around quotes the text around a byte offset.
func around(s string, at int) string {
	const before, after = 20, 40
	from, to := max(0, at-before), min(len(s), at+after)
	for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	q := strconv.Quote(s[from:to])
	if from > 0 {
		q = "…" + q
	}
	if to < len(s) {
		q += "…"
	}
	return q
}
