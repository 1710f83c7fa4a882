package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// Version is the program's version.
const Version = "0.1.0"

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" where the build knew none
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionOf(build *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build == nil {
		return v
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the version on one line.
func (v versionInfo) String() string {
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit[:min(len(v.Commit), 12)]
		if v.Modified {
			commit += "+"
		}
	}
	return fmt.Sprintf("openmanus %s%s (%s, %s)", v.Version, commit, v.Go, v.Platform)
}

func versionCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "version",
		Usage: "say which version this is",
		Flags: []cli.Flag{jsonFlag()},
	}, 0, func(_ context.Context, s *State, c *cli.Context) error {
		build, _ := debug.ReadBuildInfo() // nil where there is none
		v := versionOf(build)
		if c.Bool("json") {
			return s.printJSON(v)
		}
		_, err := fmt.Fprintln(s.Stdout, v)
		return errWith(ExitDisk, "", err)
	})
}

func jsonFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
}

// printJSON writes v as one line of JSON to standard output.
func (s *State) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = s.Stdout.Write(append(b, '\n'))
	return errWith(ExitDisk, "", err)
}
