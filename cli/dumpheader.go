package cli

import (
	"time"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/torch"
)

// dumpOptions returns the options of a dump's header: the keys of the
// configuration that decide the episodes, and what the keys were resolved to.
func dumpOptions(o playOptions, p *playing) map[string]any {
	m := o.EpisodeValues()
	m["episode"] = p.env.Setup.Options
	if p.bundle != nil && run.WritesDate(p.bundle.ChatTemplate()) {
		m[run.DayOption] = p.day.Format(time.DateOnly)
	}
	if o.Rollout.Deterministic { // sums over another number of threads differ
		m["threads"] = torch.NumThreads()
	}
	return m
}
