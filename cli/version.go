package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/doctor"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
	"github.com/openmanus/openmanus/torch"
)

// Version is the program's version.
const Version = "0.1.0"

// versionInfo is the output of `version --json`.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" if unknown
	Modified bool   `json:"modified"`
	// Executable is the beginning of the executable's SHA-256. It is set if the
	// commit does not identify the source.
	Executable string `json:"executable,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	// Launcher is the one-file executable that started the program.
	Launcher  string         `json:"launcher,omitempty"`
	Libraries *librariesInfo `json:"libraries,omitempty"` // set with --libraries and --json
}

// librariesInfo describes the native libraries in the output of `version --libraries` and `version --json`.
type librariesInfo struct {
	Libtorch string   `json:"libtorch"`
	Shim     string   `json:"shim"` // hash of the sources of libopenmanus_torch.so
	Files    []string `json:"files"`

	LibtorchCPU  string `json:"libtorch_cpu"`     // path
	LibtorchCUDA string `json:"libtorch_cuda"`    // path; "" if there is none
	Driver       string `json:"driver,omitempty"` // version of NVIDIA's driver
}

// libraries loads the native libraries and describes them.
func libraries() (*librariesInfo, error) {
	v, err := torch.Version()
	if err != nil {
		return nil, errext.With(errext.Native, "", err)
	}
	_, _ = torch.AutoDevice() // loads libtorch_cuda where there is one
	files, err := torch.LoadedFiles()
	if err != nil {
		return nil, fmt.Errorf("list the loaded libraries: %w", err)
	}
	l := &librariesInfo{Libtorch: v.Libtorch, Shim: v.Source, Files: files, Driver: doctor.DriverVersion()}
	for _, f := range files {
		switch filepath.Base(f) {
		case "libtorch_cpu.so":
			l.LibtorchCPU = f
		case "libtorch_cuda.so":
			l.LibtorchCUDA = f
		}
	}
	return l, nil
}

// String returns the libraries on several lines.
func (l *librariesInfo) String() string {
	return fmt.Sprintf("libtorch %s, libopenmanus_torch.so %s\n%s\n", l.Libtorch, l.Shim[:min(len(l.Shim), shortSum)], strings.Join(l.Files, "\n"))
}

// versionOf returns the version of a build. The argument build may be nil. The function sum returns the
// SHA-256 of the executable.
func versionOf(build *debug.BuildInfo, sum func() (string, error)) (versionInfo, error) {
	v := versionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Commit != "" && !v.Modified {
		return v, nil
	}
	text, err := sum()
	if err != nil {
		return v, fmt.Errorf("the build has no commit: hash the executable: %w", err)
	}
	v.Executable = text[:shortSum]
	return v, nil
}

// version returns the version of the running program. It differs between builds
// of different source.
func (s *State) version() (versionInfo, error) {
	build, _ := debug.ReadBuildInfo() // nil if the build recorded none
	// /proc/self/exe is the running file, even if another file has replaced it at its path.
	return versionOf(build, func() (string, error) { return s.HashFile("/proc/self/exe") })
}

// shortSum is the number of digits of a SHA-256 or of a commit that identify a build.
const shortSum = 12

// program returns the name of the build in evaluation contracts. Builds of
// different source have different names.
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
		Usage: "print the version",
		Flags: []cli.Flag{jsonFlag(), &cli.BoolFlag{Name: "libraries", Usage: "load the native libraries and print their versions and files, which --json includes"}},
	}, 0, 0, func(_ context.Context, s *State, c *cli.Context) error {
		v, err := s.version()
		if err != nil {
			return err
		}
		v.Launcher = s.Launcher
		text := v.String() + "\n"
		if c.Bool("libraries") || c.Bool("json") {
			if v.Libraries, err = libraries(); err != nil {
				return err
			}
			text += v.Libraries.String()
		}
		return s.printResult(v, text, c.Bool("json"))
	})
}

func jsonFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
}

// printResult prints v as JSON if asJSON is set, and otherwise prints text, a description of v.
func (s *State) printResult(v any, text string, asJSON bool) error {
	if asJSON {
		return s.printJSON(v)
	}
	return s.print([]byte(text))
}

// printWrapped is printResult with a text whose lines are wrapped.
func (s *State) printWrapped(v any, text string, asJSON bool) error {
	return s.printResult(v, textwidth.Wrap(text, textwidth.Limit), asJSON)
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
