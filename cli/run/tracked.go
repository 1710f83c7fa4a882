package run

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
)

// Tracked describes a run to the sinks of its metrics, which write in the run folder.
func (h *Host) Tracked(folder *rundir.Folder) (track.Run, error) {
	config, err := h.ReadFile(folder.Config(), maxSavedConfig)
	if errors.Is(err, fs.ErrNotExist) { // the settings are not shown
		err = nil
	}
	return track.Run{
		Name: filepath.Base(folder.Dir), Folder: folder.Dir, Metrics: folder.Metrics(),
		Config: string(config), Getenv: h.Getenv, Log: h.Log,
	}, err
}
