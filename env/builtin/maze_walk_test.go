package builtin

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMazeWalk(t *testing.T) {
	bumps, returns := 0, 0
	for game := range MazeGames {
		actions := MazeWalk(game, 200, rand.New(rand.NewPCG(1, uint64(game))))
		if len(actions) != 200 {
			t.Fatalf("game %d: %d moves, want 200", game, len(actions))
		}
		at := mazeStarts[game]
		from := at
		for i, a := range actions {
			to := mazeMove(at, a)
			if to == at {
				bumps++
				continue
			}
			if to == from && waysOn(at, from) > 0 {
				returns++
			}
			if to == mazeGoal {
				t.Fatalf("game %d, move %d: %s from %v enters the goal", game, i, a, at)
			}
			from, at = at, to
		}
		if again := MazeWalk(game, 200, rand.New(rand.NewPCG(1, uint64(game)))); !slices.Equal(again, actions) {
			t.Fatalf("game %d: two walks with one seed differ", game)
		}
	}
	if all := 200 * MazeGames; bumps < all/20 || bumps > all/4 {
		t.Errorf("%d of %d moves lead into a wall, want from 1/20 to 1/4", bumps, all)
	}
	if all := 200 * MazeGames; returns < all/50 || returns > all/5 {
		t.Errorf("%d of %d moves turn back while another way is open, want from 1/50 to 1/5", returns, all)
	}
	for _, game := range []int{-1, MazeGames} {
		if a := MazeWalk(game, 3, rand.New(rand.NewPCG(1, 1))); a != nil {
			t.Errorf("game %d: %v, want nil", game, a)
		}
	}
}
