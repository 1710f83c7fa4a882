package shard

import (
	"fmt"
	"slices"
	"strings"
)

// Level selects the tensors that are sharded. A level includes the levels before it.
type Level int

// The levels.
const (
	None      Level = iota
	Optimizer       // moments, and float32 masters of 16-bit weights
	Gradients       // gradients
	Weights         // weights
)

var levels = []string{"none", "optimizer", "gradients", "weights"}

// Levels returns the names of the levels.
func Levels() []string { return slices.Clone(levels) }

// ParseLevel returns the level of a name.
func ParseLevel(name string) (Level, error) {
	i := slices.Index(levels, name)
	if i < 0 {
		return None, fmt.Errorf("unknown level %q of sharding; use one of %s", name, strings.Join(levels, ", "))
	}
	return Level(i), nil
}

func (l Level) String() string { return levels[l] }
