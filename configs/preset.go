package configs

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

//go:embed presets/*.toml presets/env/*.toml
var presets embed.FS

// PresetNames returns the names of the embedded configurations.
func PresetNames() []string { return embedded("presets") }

// Preset returns the text of an embedded configuration.
func Preset(name string) ([]byte, error) { return readPreset("presets", "", name) }

// embedded returns the names of the TOML files of a folder.
func embedded(dir string) []string {
	files, err := presets.ReadDir(dir)
	if err != nil {
		panic("configs: no presets embedded: " + err.Error())
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".toml"); ok {
			names = append(names, name)
		}
	}
	return names
}

func readPreset(dir, kind, name string) ([]byte, error) {
	text, err := presets.ReadFile(path.Join(dir, path.Base(name)+".toml"))
	if err == nil && path.Base(name) == name {
		return text, nil
	}
	names := embedded(dir)
	msg := fmt.Sprintf("there is no preset %s%q; there are: %s", kind, name, strings.Join(names, ", "))
	if n := registry.Nearest(name, names); n != "" {
		msg += fmt.Sprintf("; did you mean %s?", n)
	}
	return nil, fmt.Errorf("%s", msg)
}
