//go:build !torchdebug && !race

package torch

const debugging = false

type site struct{}

func (site) text() string { return "; build with -tags torchdebug to see where it was made" }

func remember(*handle) {}

func forget(*handle) {}

// Live lists the live tensors, in builds with the tag torchdebug only; here it is nil.
func Live() []LiveInfo { return nil }
