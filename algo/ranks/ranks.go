package ranks

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// Ranks is this process among the processes of a run. One goroutine at a time uses it.
type Ranks struct {
	group       *dist.Group
	env         dist.Env
	thread      *torch.Thread               // on the CPU; the models' thread may be on a GPU or in use
	names       []string                    // names of the processes in errors, by rank
	code        func(error) errext.ExitCode // exit code of an error of this process
	broken      bool                        // a call of the group has failed, or Break was called
	settled     bool                        // all ranks have exchanged an error, with which they leave the loop
	connections []*Ranks                    // made by Connect

	workers  int    // number of last ranks that only play; 0: all ranks play and train
	trainers *Ranks // the ranks that train; nil if this is no such rank, or the only one
	updates  *Ranks // rank 0 and the workers, which receive its weights; nil on other ranks
}

// New returns the ranks of a group that this process has joined as env. All ranks call it. The function code returns the exit
// code of an error of this process. Close closes the group.
func New(ctx context.Context, g *dist.Group, env dist.Env, code func(error) errext.ExitCode) (*Ranks, error) {
	thread, err := torch.NewThread(torch.Device{})
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		thread.Close()
		return nil, err
	}
	r := &Ranks{group: g, env: env, thread: thread, names: make([]string, g.Size()), code: code}
	r.names, err = Gather(ctx, r, func() (string, error) { return fmt.Sprintf("process %d on %s", os.Getpid(), host), nil })
	if err != nil {
		thread.Close()
		return nil, err
	}
	return r, nil
}

// Connect makes another group of the ranks in members, for another goroutine or for a part of the work. All members call it with the
// same arguments. A member's rank in the new group is its index in members. Each group of a process needs a different name. Close of r
// closes the new group too. On a process that is not a member, Connect returns nil. After an error all connections are broken.
func (r *Ranks) Connect(ctx context.Context, name string, members []int, timeout time.Duration) (_ *Ranks, err error) {
	defer func() {
		if err != nil { // the other members may wait for this rank
			r.Break()
		}
	}()
	rank := slices.Index(members, r.Rank())
	if rank < 0 {
		return nil, nil
	}
	at := r.env
	at.Rank, at.Size, at.LocalRank, at.LocalSize = rank, len(members), 0, 0
	at.StarterStore, at.Attempt = true, at.Attempt+"/"+name // the store of the first connection
	g, err := dist.Join(ctx, at, timeout)
	if err != nil {
		return nil, err
	}
	own, err := New(ctx, g, r.env, r.code)
	if err != nil {
		g.Abort()
		return nil, err
	}
	if len(members) == r.Size() {
		own.workers = r.workers
	}
	r.connections = append(r.connections, own)
	return own, nil
}

// AssignWorkers makes the last ranks workers, which only play, and the others trainers; workers is the number of workers. All ranks call it.
// Without AssignWorkers every rank plays and trains.
func (r *Ranks) AssignWorkers(ctx context.Context, workers int, timeout time.Duration) (err error) {
	var trainers, updates []int
	for rank := range r.Size() {
		if rank < r.Size()-workers {
			trainers = append(trainers, rank)
		}
		if rank == 0 || rank >= r.Size()-workers {
			updates = append(updates, rank)
		}
	}
	r.workers = workers
	if len(trainers) > 1 {
		if r.trainers, err = r.Connect(ctx, "trainers", trainers, timeout); err != nil {
			return err
		}
	}
	r.updates, err = r.Connect(ctx, "updates", updates, timeout)
	return err
}

// Workers returns the number of ranks that only play.
func (r *Ranks) Workers() int {
	if r == nil {
		return 0
	}
	return r.workers
}

// Trains reports whether this rank updates the weights.
func (r *Ranks) Trains() bool { return r.Rank() < r.Size()-r.Workers() }

// Player returns the index of this rank among the ranks that play, and their number. The index is -1 on a rank that does not play.
func (r *Ranks) Player() (index, of int) {
	if r.Workers() == 0 {
		return r.Rank(), r.Size()
	}
	return max(-1, r.Rank()-(r.Size()-r.workers)), r.workers
}

// Trainers returns the group of the ranks that train. It returns nil on a worker and on the only trainer.
func (r *Ranks) Trainers() *dist.Group {
	if r.Workers() == 0 {
		return r.Group()
	}
	return r.trainers.Group()
}

// Update calls f with the group of rank 0 and the workers, in which rank 0 sends its weights. On other ranks it does nothing.
func (r *Ranks) Update(f func(g *dist.Group) error) error {
	if r.updates == nil {
		return nil
	}
	err := f(r.updates.group)
	if err == nil {
		return nil
	}
	r.Break()
	return r.updates.withNames(err)
}

// Group returns the group of processes, or nil for one process.
func (r *Ranks) Group() *dist.Group {
	if r == nil {
		return nil
	}
	return r.group
}

// Rank returns the number of this process, from 0.
func (r *Ranks) Rank() int {
	if r == nil {
		return 0
	}
	return r.group.Rank()
}

// Size returns the number of processes.
func (r *Ranks) Size() int {
	if r == nil {
		return 1
	}
	return r.group.Size()
}

// Local returns the index of this process on its machine, and the number of processes there. The size is 0 if it is unknown.
func (r *Ranks) Local() (rank, size int) {
	if r == nil {
		return 0, 1
	}
	return r.env.LocalRank, r.env.LocalSize
}

// First reports whether this process is rank 0, which writes the run folder.
func (r *Ranks) First() bool { return r.Rank() == 0 }

// Broken reports whether the connection to the other ranks has failed.
func (r *Ranks) Broken() bool { return r != nil && r.broken }

// Settle returns the error with which this rank leaves the loop; err is its own error. After an error of the native libraries or of the
// group, the other ranks may be inside a collective, so Settle breaks the connection to them. All other errors occur on all ranks,
// because they follow from the same data. The ranks exchange them, so that only rank 0 prints its error.
func (r *Ranks) Settle(ctx context.Context, err error) error {
	if r == nil || err == nil || r.settled || r.broken {
		return err
	}
	if isNative(err) || ctx.Err() != nil {
		r.Break()
		if _, group := errors.AsType[*dist.Error](err); group {
			return r.withNames(err)
		}
		return err
	}
	return r.Each(ctx, func() error { return err })
}

// Break ends all connections to the other ranks, which may be inside a collective, after an error of this rank.
func (r *Ranks) Break() {
	if r == nil {
		return
	}
	r.broken = true
	for _, other := range append(r.connections, r) {
		other.group.Abort()
	}
}

// rankNumber matches a rank in a message of the group.
var rankNumber = regexp.MustCompile(`\brank (\d+)\b`)

// withNames adds to an error of the group the process names of the ranks in its message.
func (r *Ranks) withNames(err error) error {
	var named []string
	for _, m := range rankNumber.FindAllStringSubmatch(err.Error(), -1) {
		rank, _ := strconv.Atoi(m[1]) // digits
		if rank == r.Rank() || rank >= len(r.names) || r.names[rank] == "" {
			continue
		}
		if name := fmt.Sprintf("rank %d is %s", rank, r.names[rank]); !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	if len(named) == 0 {
		return err
	}
	return fmt.Errorf("%w; %s", err, strings.Join(named, ", "))
}

// isNative reports whether err is an error of the native libraries or of a group. The other ranks may then be inside a collective.
func isNative(err error) bool {
	_, native := errors.AsType[*torch.Error](err)
	_, group := errors.AsType[*dist.Error](err)
	return native || group
}

// AfterUpdate calls update on every rank, which makes an update on the trainers and returns the version of the weights. It returns the
// version of rank 0. It does not exchange an error of the native libraries or of the group, after which Settle breaks the connections.
func (r *Ranks) AfterUpdate(ctx context.Context, update func() (version int64, err error)) (int64, error) {
	stop := r.keepAlive(ctx)
	version, err := update()
	stop()
	if isNative(err) {
		return 0, err
	}
	all, err := exchange(ctx, r, &version, err)
	if err != nil {
		return 0, err
	}
	if r.First() {
		return version, nil
	}
	return all[0], nil
}

// closeTimeout limits the wait for the other ranks at the end of a run.
const closeTimeout = 30 * time.Second

// Close closes the connections; outcome is the error of the run, or nil. It waits for the other ranks, unless the connections are
// broken or only this rank has an error. In these cases the next exchange of the other ranks fails.
func (r *Ranks) Close(outcome error) (err error) {
	if r == nil {
		return nil
	}
	if !r.broken && (outcome == nil || r.settled) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = r.group.Close(ctx)
	}
	for _, other := range append(r.connections, r) {
		other.group.Abort()
		other.thread.Close()
	}
	return err
}

// Gather calls f on every rank and returns the results of all ranks, in their order. T is a type that gob encodes, and not
// a pointer: gob does not distinguish nil from a pointer to a zero value.
func Gather[T any](ctx context.Context, r *Ranks, f func() (T, error)) ([]T, error) {
	stop := r.keepAlive(ctx)
	v, err := f()
	stop()
	if r == nil {
		return []T{v}, err
	}
	all, err := exchange(ctx, r, &v, err)
	if err != nil {
		return nil, err
	}
	all[r.Rank()] = v // not the decoded copy
	return all, nil
}

// Share calls f on rank 0 and returns its result on all ranks. See Gather for T.
func Share[T any](ctx context.Context, r *Ranks, f func() (T, error)) (v T, err error) {
	if r == nil {
		return f()
	}
	var sent *T
	if r.First() {
		stop := r.keepAlive(ctx)
		v, err = f()
		stop()
		sent = &v
	}
	all, err := exchange(ctx, r, sent, err)
	if err != nil || r.First() {
		return v, err
	}
	return all[0], nil
}

// OnFirst calls f on rank 0 and returns its error on all ranks.
func (r *Ranks) OnFirst(ctx context.Context, f func() error) error {
	_, err := Share(ctx, r, func() (bool, error) { return true, f() })
	return err
}

// Each calls f on every rank. If it fails on a rank, all ranks return an error.
func (r *Ranks) Each(ctx context.Context, f func() error) error {
	_, err := Gather(ctx, r, func() (bool, error) { return true, f() })
	return err
}

// Any reports whether the argument is true on at least one rank.
func (r *Ranks) Any(ctx context.Context, here bool) (bool, error) {
	all, err := Gather(ctx, r, func() (bool, error) { return here, nil })
	for _, there := range all {
		here = here || there
	}
	return here, err
}

// The first byte of the message that each rank sends in an exchange. The encoding of the value or the error follows. An error can be
// decoded even if the ranks exchange values of different types.
const (
	noValue byte = iota
	hasValue
	hasFailed // an Error
	working   // the rank has no value yet: the exchange is repeated
)

// encode returns the message of the given kind with v.
func encode(kind byte, v any) ([]byte, error) {
	b := bytes.NewBuffer([]byte{kind})
	err := gob.NewEncoder(b).Encode(v)
	return b.Bytes(), err
}

func decode(text []byte, v any) error { return gob.NewDecoder(bytes.NewReader(text)).Decode(v) }

// exchange sends the value v or, if it is not nil, the error err of this rank to all ranks, and receives theirs.
func exchange[T any](ctx context.Context, r *Ranks, v *T, err error) ([]T, error) {
	if ctx.Err() != nil { // the process ends at once
		return nil, context.Cause(ctx)
	}
	if err != nil && r.broken { // after Break
		return nil, err
	}
	sent := []byte{noValue}
	if err == nil && v != nil {
		sent, err = encode(hasValue, v)
	}
	if err != nil {
		var encodeErr error
		if sent, encodeErr = encode(hasFailed, r.failed(err)); encodeErr != nil {
			return nil, fmt.Errorf("ranks: %w", encodeErr)
		}
	}
	texts, groupErr := r.round(ctx, sent)
	for groupErr == nil && slices.ContainsFunc(texts, func(text []byte) bool { return text[0] == working }) {
		texts, groupErr = r.round(ctx, sent)
	}
	if groupErr != nil {
		r.broken = true
		if err != nil { // the cause is on this rank
			return nil, err
		}
		return nil, fmt.Errorf("exchange with the other processes: %w", r.withNames(groupErr))
	}
	var failed *Error
	for rank, text := range texts {
		if text[0] != hasFailed {
			continue
		}
		var e Error
		if err := decode(text[1:], &e); err != nil {
			return nil, fmt.Errorf("ranks: decode the message of rank %d: %w", rank, err)
		}
		if failed == nil || failed.follows() && !e.follows() {
			failed = &e
		}
	}
	if failed == nil {
		all := make([]T, len(texts))
		for rank, text := range texts {
			if text[0] == noValue || rank == r.Rank() {
				continue
			}
			if err := decode(text[1:], &all[rank]); err != nil {
				return nil, fmt.Errorf("ranks: decode the message of rank %d: %w", rank, err)
			}
		}
		return all, nil
	}
	r.settled = true
	if failed.here = r.Rank(); failed.Rank == r.Rank() {
		if r.First() {
			return nil, err // with its types and its hint
		}
		failed.cause = err
	}
	return nil, failed
}

// round sends a message to all ranks and returns their messages.
func (r *Ranks) round(ctx context.Context, sent []byte) (texts [][]byte, err error) {
	err = torch.Run(ctx, r.thread, func(s *torch.Scope) (err error) {
		texts, err = r.group.GatherBytes(ctx, s, sent)
		return err
	})
	return texts, err
}

// Error is an error of one rank that has been sent to all ranks.
type Error struct {
	Rank, Size int
	Name       string // of the process
	Text       string
	Code       errext.ExitCode
	Lost       bool // the error of a group, whose cause is an error of another rank

	here  int   // rank of this process
	cause error // the original error; nil on the other ranks
}

func (r *Ranks) failed(err error) *Error {
	_, lost := errors.AsType[*dist.Error](err)
	return &Error{Rank: r.Rank(), Size: r.Size(), Name: r.names[r.Rank()], Text: err.Error(), Code: r.code(err), Lost: lost}
}

// follows reports whether another error, if there is one, is the cause that is reported.
func (e *Error) follows() bool { return e.Lost || e.Code == errext.Interrupted }

// Error names the rank and its process.
func (e *Error) Error() string {
	if e.Rank == 0 {
		return e.Text
	}
	return fmt.Sprintf("rank %d of %d (%s): %s", e.Rank, e.Size, e.Name, e.Text)
}

// Unwrap returns the original error on the rank where it occurred, and nil on the others.
func (e *Error) Unwrap() error { return e.cause }

// Interrupted reports whether err is the interrupt of a rank.
func Interrupted(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == errext.Interrupted
}

// Printed reports whether rank 0 prints err, so that this process need not.
func Printed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.here > 0
}
