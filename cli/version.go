package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/internal/errext"
)

// Version is the program's version.
const Version = "0.1.0"

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" where the build knew none
	Modified bool   `json:"modified"`
	// Executable begins the SHA-256 of the program's file, where the commit does
	// not say what it was built of.
	Executable string `json:"executable,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
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

// runningVersion is the version of the program that runs, told apart from any
// other build of other code.
func runningVersion() (versionInfo, error) {
	build, _ := debug.ReadBuildInfo() // nil where there is none
	return versionOf(build).told(executableSum)
}

// told completes v with the sum of the executable where the commit does not
// say what it was built of: none was known, or files were changed since.
func (v versionInfo) told(sum func() (string, error)) (versionInfo, error) {
	if v.Commit != "" && !v.Modified {
		return v, nil
	}
	text, err := sum()
	if err != nil {
		return v, fmt.Errorf("which build this is, its commit does not say, and the program's file cannot be read: %w", err)
	}
	v.Executable = text[:shortSum]
	return v, nil
}

// shortSum is as many digits of a sum or of a commit as tell builds apart.
const shortSum = 12

// program names the build in contracts: two builds of other code have other
// names.
func (v versionInfo) program() string {
	words := []string{v.Version}
	if v.Commit != "" {
		words = append(words, v.Commit)
	}
	if v.Modified {
		words = append(words, "modified")
	}
	if v.Executable != "" {
		words = append(words, "executable "+v.Executable)
	}
	return strings.Join(words, " ")
}

// String returns the version on one line.
func (v versionInfo) String() string {
	build := ""
	if v.Commit != "" {
		build = " " + v.Commit[:min(len(v.Commit), shortSum)]
		if v.Modified {
			build += "+"
		}
	}
	if v.Executable != "" {
		build += " executable " + v.Executable
	}
	return fmt.Sprintf("openmanus %s%s (%s, %s)", v.Version, build, v.Go, v.Platform)
}

func versionCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "version",
		Usage: "say which version this is",
		Flags: []cli.Flag{jsonFlag()},
	}, 0, func(_ context.Context, s *State, c *cli.Context) error {
		v, err := runningVersion()
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return s.printJSON(v)
		}
		_, err = fmt.Fprintln(s.Stdout, v)
		return errext.With(errext.Disk, "", err)
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
	return errext.With(errext.Disk, "", err)
}
