package algo

import "context"

// With Loop.FreeKV the KV cache and the update use the memory of the device in turn. The first pass of a step frees the cache, the next
// play reserves it again in the same size. The KV of earlier weights would be of no use after the update, so this recomputes nothing.

// exclusive runs f, which passes rows through a model, while the engine runs no batch. With FreeKV its KV cache is free.
func (c *core) exclusive(ctx context.Context, f func() error) error {
	if c.o.FreeKV {
		return c.Engine.Released(ctx, f)
	}
	return c.Engine.Exclusive(ctx, f)
}

// freeKV frees the KV cache before passes during which nothing plays.
func (c *core) freeKV(ctx context.Context) error {
	if !c.o.FreeKV {
		return nil
	}
	return c.Engine.Released(ctx, func() error { return nil })
}

// reserveKV reserves the KV cache that a pass has freed, before episodes are played. Without it the first batch of the engine would
// reserve the cache, and an error would be one of the episodes, which are repeated.
func (c *core) reserveKV(ctx context.Context) error {
	if !c.o.FreeKV {
		return nil
	}
	return c.Engine.Reserve(ctx)
}
