package configs

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

//go:embed presets/*.toml presets/env/*.toml
var presets embed.FS

// specificPresets lists the presets that are specific to their environment and tasks.
var specificPresets = []string{"agentevol", "quickstart", "rlvr", "smollm2-maze"}

// AlgorithmPresetNames returns the presets that work with any environment.
func AlgorithmPresetNames() []string {
	return slices.DeleteFunc(PresetNames(), func(name string) bool { return slices.Contains(specificPresets, name) })
}

// EnvPresetNames returns the names of the environments, which all have a preset.
func EnvPresetNames() []string { return embedded("presets/env") }

// EnvPreset returns the [[env]] table of an environment as TOML: its tasks, its
// server and the length of its episodes.
func EnvPreset(name string) ([]byte, error) {
	text, err := readPreset("presets/env", "of an environment ", name)
	if err != nil {
		return nil, fmt.Errorf("%w; for an environment of your own, write its [[env]] table as in docs/own-environment.md", err)
	}
	return text, nil
}

// LoadPreset loads an embedded configuration with the overrides in sets. The
// environments in envs, if any, replace the preset's.
func (s *Schema) LoadPreset(name string, envs, sets []string) (Config, error) {
	text, err := Preset(name)
	if err != nil {
		return Config{}, err
	}
	if len(envs) == 0 {
		return s.newLoader("preset "+name, written).read(text, sets)
	}
	if slices.Contains(specificPresets, name) {
		return Config{}, fmt.Errorf("the preset %s is specific to its environment; presets for any environment: %s", name, strings.Join(AlgorithmPresetNames(), ", "))
	}
	with := "preset " + name + " with " + strings.Join(envs, ", ")
	l := s.newLoader(with, written)
	if err := l.file(text); err != nil {
		return Config{}, err
	}
	own := ""
	for _, e := range l.cfg.Env {
		own = e.Name
	}
	l.cfg.Env = nil
	for _, env := range envs {
		text, err := EnvPreset(env)
		if err != nil {
			return Config{}, err
		}
		if err := l.envTable(text); err != nil {
			return Config{}, err
		}
	}
	l.lines = nil // the keys are from several files
	l.cfg.Trainer.Experiment = strings.Replace(l.cfg.Trainer.Experiment, own, strings.Join(envs, "-"), 1)
	return l.finish(sets)
}

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
