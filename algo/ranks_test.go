package algo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
)

// asRanks calls f for each of n ranks of this process at the same time.
func asRanks(t *testing.T, n int, f func(r *ranks.Ranks) error) {
	t.Helper()
	disttest.Run(t, n, func(_ *torch.Thread, g *dist.Group) error {
		code := func(err error) errext.ExitCode {
			if errors.Is(err, ErrInterrupted) {
				return errext.Interrupted
			}
			return errext.Disk
		}
		r, err := ranks.New(t.Context(), g, dist.Env{Rank: g.Rank(), Size: n, LocalRank: g.Rank(), LocalSize: n}, code)
		if err != nil {
			return err
		}
		err = f(r)
		return errors.Join(err, r.Close(err))
	})
}

// TestChecks checks that all ranks check before the same steps, take the decisions of rank 0's clock, and stop at the check after
// one of them was asked to.
func TestChecks(t *testing.T) {
	var saves, stopped [2][]int // by rank
	asRanks(t, 2, func(r *ranks.Ranks) error {
		soft, stop := context.WithCancel(t.Context())
		defer stop()
		now := time.Unix(int64(r.Rank())*1e6, 0)
		c := checks{ranks: r, saveAfter: time.Second, now: func() time.Time { return now }}
		for step := 1; step <= 400; step++ {
			save, err := c.before(t.Context(), soft, step)
			switch {
			case errors.Is(err, ErrInterrupted):
				stopped[r.Rank()] = append(stopped[r.Rank()], step)
				return nil
			case err != nil:
				return err
			case save:
				saves[r.Rank()] = append(saves[r.Rank()], step)
			}
			if r.First() {
				now = now.Add(10 * time.Millisecond)
			} else {
				now = now.Add(time.Hour) // the clocks of other ranks do not count
			}
			if step == 300 && r.Rank() == 1 {
				stop()
			}
		}
		return nil
	})
	// Checks are before the steps 1, 2 and then, at 10 ms a step, every 25 steps.
	if want := []int{102, 202}; !slices.Equal(saves[0], want) || !slices.Equal(saves[1], want) {
		t.Errorf("checkpoints are due before the steps %v, want %v on both ranks", saves, want)
	}
	if want := []int{302}; !slices.Equal(stopped[0], want) || !slices.Equal(stopped[1], want) {
		t.Errorf("stopped before the steps %v, want %v on both ranks", stopped, want)
	}
}

// TestOneProcessChecksEveryStep checks the decisions of one process.
func TestOneProcessChecksEveryStep(t *testing.T) {
	soft, stop := context.WithCancel(t.Context())
	now := time.Unix(0, 0)
	c := checks{saveAfter: 30 * time.Millisecond, now: func() time.Time { return now }}
	var saves []int
	for step := 1; step <= 10; step++ {
		save, err := c.before(t.Context(), soft, step)
		if err != nil {
			t.Fatal(err)
		}
		if save {
			saves = append(saves, step)
		}
		now = now.Add(10 * time.Millisecond)
	}
	if want := []int{4, 7, 10}; !slices.Equal(saves, want) {
		t.Errorf("checkpoints are due before the steps %v, want %v", saves, want)
	}
	stop()
	if _, err := c.before(t.Context(), soft, 11); !errors.Is(err, ErrInterrupted) {
		t.Errorf("%v, want an interrupt", err)
	}
}

// TestRank0DecidesWhetherAFailedRunSaves makes the disk full for the metrics of step 2, when the weights of one rank are between two
// steps. Rank 0 decides for both ranks whether step 2 is saved.
func TestRank0DecidesWhetherAFailedRunSaves(t *testing.T) {
	for _, c := range []struct {
		name         string
		inconsistent int // rank
		saved        int // step of the newest checkpoint
	}{
		{"rank 1 has nothing to save", 1, 2},
		{"rank 0 has nothing to save", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			asRanks(t, 2, func(rank *ranks.Ranks) error {
				r := newRig(t)
				r.dir, r.ranks = dir, rank
				r.onWrite = func(l track.Line) error {
					if isStep(l, 2) {
						return errFull
					}
					return nil
				}
				r.made = func(trainer *Trainer) {
					r.onPhase = func(p Phase) {
						if strings.HasSuffix(p.Of, rundir.StepLabel(2)) && rank.Rank() == c.inconsistent {
							trainer.Actor.SetInconsistent()
						}
					}
				}
				err := r.fit(t, t.Context(), t.Context())
				if err == nil || rank.First() != IsDiskError(err) || !strings.Contains(err.Error(), "step 2: write metrics") {
					t.Errorf("rank %d: %v, want the full disk of rank 0", rank.Rank(), err)
				}
				return nil
			})
			found, _, err := checkpoint.Latest(t.Context(), (&rundir.Folder{Dir: dir}).Checkpoints())
			if err != nil || found.Step != c.saved {
				t.Errorf("the newest checkpoint is %+v (error %v), want step %d", found, err, c.saved)
			}
		})
	}
}
