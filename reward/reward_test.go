package reward

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
)

func TestLast(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		want    float64
	}{
		{"no step", nil, 0},
		{"sparse", []float64{0, 0, 1}, 1},
		{"running score is not summed", []float64{10, 25, 60}, 60},
		{"failure", []float64{0, -1}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var turns []data.Turn
			for _, r := range c.rewards {
				turns = append(turns, data.Turn{Reward: r})
			}
			if got := Last(turns); got != c.want {
				t.Fatalf("Last = %v, want %v", got, c.want)
			}
		})
	}
}

// The row is that of spec 12.5: two human tokens, two sampled, three of an
// observation, three sampled.
func TestLastToken(t *testing.T) {
	mask := []uint8{0, 0, 1, 1, 0, 0, 0, 1, 1, 1}
	got, err := LastToken(1, mask)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, got); d != "" {
		t.Fatal(d)
	}
	// The reward stays with the last sampled token though an observation of
	// eight tokens follows; upstream loses it outside its window.
	got, err = LastToken(-1, append(mask, 0, 0, 0, 0, 0, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got[9] != -1 || got[17] != 0 {
		t.Fatalf("reward at %v", got)
	}
	if _, err := LastToken(1, []uint8{0, 0}); !errors.Is(err, ErrNoSampledToken) {
		t.Fatalf("no sampled token: %v", err)
	}
}

func TestRegistries(t *testing.T) {
	if _, err := Signals.Lookup("last"); err != nil {
		t.Error(err)
	}
	if _, err := Allocations.Lookup("uniform"); err == nil {
		t.Error("an unknown allocation was found")
	}
}

func TestLessTurns(t *testing.T) {
	turns := make([]data.Turn, 4)
	if got := LessTurns(1, turns, 0.125); got != 0.5 {
		t.Errorf("four turns at 0.125 leave %v of 1, want 0.5", got)
	}
	if got := LessTurns(1, turns, 0); got != 1 {
		t.Errorf("no penalty leaves %v of 1", got)
	}
	if got := LessTurns(0, nil, 0.125); got != 0 {
		t.Errorf("no turn leaves %v of 0", got)
	}
}
