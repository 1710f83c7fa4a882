package configs

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed presets/*.toml
var presets embed.FS

// PresetNames returns the names of the embedded configurations.
func PresetNames() []string {
	files, err := presets.ReadDir("presets")
	if err != nil {
		panic("configs: no presets embedded: " + err.Error())
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), ".toml")
	}
	return names
}

// Preset returns the text of an embedded configuration.
func Preset(name string) ([]byte, error) {
	text, err := presets.ReadFile(path.Join("presets", path.Base(name)+".toml"))
	if err == nil && path.Base(name) == name {
		return text, nil
	}
	msg := fmt.Sprintf("there is no preset %q; there are: %s", name, strings.Join(PresetNames(), ", "))
	if n := Nearest(name, PresetNames()); n != "" {
		msg += fmt.Sprintf("; did you mean %s?", n)
	}
	return nil, fmt.Errorf("%s", msg)
}
