package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/payload"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func cacheCommand(s *State) *cli.Command {
	return group("cache", "list and remove the programs that the one-file openmanus has unpacked",
		leaf(s, &cli.Command{Name: "list", Usage: "list the unpacked programs", Flags: []cli.Flag{jsonFlag()}}, 0, 0, cacheList),
		leaf(s, &cli.Command{Name: "prune", Usage: "remove the unpacked programs that no process runs"}, 0, 0, cachePrune),
	)
}

// cachedProgram is one entry of `cache list --json`.
type cachedProgram struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	InUse bool   `json:"in_use"` // a process runs it
}

// openCache opens the folder of unpacked programs. It returns nil if there is none.
func (s *State) openCache() (c *payload.Cache, dir string, err error) {
	dir, err = payload.CacheDir(s.Getenv)
	if err != nil {
		return nil, dir, errext.With(errext.Disk, "", err)
	}
	c, err = payload.OpenCache(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, dir, nil
	}
	hint := ""
	if errors.Is(err, fs.ErrPermission) {
		hint = "set " + payload.Variable + " to a folder of your own"
	}
	return c, dir, errext.With(errext.Disk, hint, err)
}

func cacheList(_ context.Context, s *State, c *cli.Context) error {
	cache, dir, err := s.openCache()
	if err != nil {
		return err
	}
	list := []cachedProgram{}
	if cache != nil {
		programs, err := cache.List()
		if err != nil {
			return errext.With(errext.Disk, "", err)
		}
		for _, p := range programs {
			list = append(list, cachedProgram{p.Name, p.Dir, p.Bytes, p.InUse})
		}
	}
	if c.Bool("json") {
		return s.printJSON(list)
	}
	if len(list) == 0 {
		return s.print([]byte("no unpacked programs in " + dir + "\n"))
	}
	rows := [][]string{{"name", "size", "in use"}}
	for _, p := range list {
		rows = append(rows, []string{p.Name, bytesText(p.Bytes), map[bool]string{true: "yes", false: "no"}[p.InUse]})
	}
	return s.print([]byte("unpacked programs in " + filepath.Dir(list[0].Path) + "\n\n" + textwidth.Table("lrl", rows)))
}

func cachePrune(_ context.Context, s *State, _ *cli.Context) error {
	cache, dir, err := s.openCache()
	if err != nil {
		return err
	}
	if cache == nil {
		return s.print([]byte("no unpacked programs in " + dir + "\n"))
	}
	removed, err := cache.Prune()
	for _, p := range removed {
		if err := s.print(fmt.Appendf(nil, "removed %s (%d MB)\n", filepath.Base(p.Dir), p.Bytes/1e6)); err != nil {
			return err
		}
	}
	if err == nil && len(removed) == 0 {
		err = s.print([]byte("nothing to remove: no program in " + dir + " is unused\n"))
	}
	return errext.With(errext.Disk, "", err)
}
