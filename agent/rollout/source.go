package rollout

import (
	"context"

	"github.com/openmanus/openmanus/data"
)

// Source supplies episodes that RunEpisodes does not play, such as those of agents in
// other programs.
type Source interface {
	// Collect returns the episodes of the given number of groups of Options.GroupSize
	// episodes, in order. It uses GroupSize, Seed, Step, Earlier, Observer and OnProgress of
	// the options. It returns an error if ctx ends.
	Collect(ctx context.Context, groups int, o Options) ([]*data.Episode, Stats, error)
}
