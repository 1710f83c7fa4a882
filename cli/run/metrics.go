package run

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/errext"
)

// metrics opens metrics.jsonl and the sinks of log.backends. It removes the lines of
// steps after the checkpoint, which will be repeated.
func (t *training) metrics(ctx context.Context) (track.File, error) {
	if t.sink != nil || !t.host.Ranks.First() {
		return t.sink, nil
	}
	file, err := track.OpenJSONL(t.run.Metrics())
	if err != nil {
		return nil, errext.With(errext.Disk, "", err)
	}
	var offset int64
	if t.run.state != nil {
		offset = t.run.state.MetricsOffset
	}
	if err := file.TruncateTo(offset); err != nil {
		return nil, errors.Join(errext.With(errext.Disk, "", err), file.Close())
	}
	tracked, err := t.host.Tracked(t.run.Folder)
	if err != nil {
		return nil, errors.Join(errext.With(errext.Disk, "", err), file.Close())
	}
	tracked.Ended = func() track.End { return t.ended }
	// Close ends the background work of sinks, which send the last lines also after an interrupt.
	sink, err := track.With(context.WithoutCancel(ctx), file, tracked, t.cfg.Log.Backends)
	if err != nil {
		code := errext.Input
		if algo.IsDiskError(err) {
			code = errext.Disk
		}
		return nil, errors.Join(errext.With(code, "", err), file.Close())
	}
	t.open.Add(sink.Close)
	t.sink = sink
	return sink, nil
}
