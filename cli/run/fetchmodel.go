package run

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/hub"
)

// HubSettings returns the settings of the Hugging Face hub in the environment.
func HubSettings(h *Host) hub.Settings {
	s := hub.FromEnvironment(h.Getenv)
	s.Cache = h.Path(s.Cache)
	return s
}

// FetchModel fetches a model of the hub and shows the progress.
func FetchModel(ctx context.Context, h *Host, n hub.Name, o hub.Options) (hub.Fetched, error) {
	const unit = 1e6 // the display counts megabytes
	c := hub.New(HubSettings(h), h.Log)
	defer c.Close()
	o.To = h.Path(o.To)
	var bar Progress = noDisplay{}
	c.OnStart = func(total int64) { bar = h.Progress("fetching "+n.ID+" (MB)", int((total+unit-1)/unit)) }
	c.OnProgress = func(done int64, activity string) { bar.Set(int(done/unit), activity) }
	got, err := c.Fetch(ctx, n, o)
	bar.Done()
	if err != nil {
		return got, err
	}
	if got.Downloaded > 0 {
		h.Log.Info("fetched a model", "model", n.String(), "commit", got.Commit, "size", fmt.Sprintf("%.1f MB", float64(got.Downloaded)/unit), "path", got.Path)
	}
	return got, nil
}
