package configs

import (
	"fmt"
	"slices"
	"strings"
)

// whole lists the presets that are specific to their environment and tasks.
var whole = []string{"agentevol", "quickstart", "smollm2-maze"}

// AlgorithmPresetNames returns the presets that work with any environment.
func AlgorithmPresetNames() []string {
	return slices.DeleteFunc(PresetNames(), func(name string) bool { return slices.Contains(whole, name) })
}

// EnvPresetNames returns the environments with a preset: all of them.
func EnvPresetNames() []string { return embedded("presets/env") }

// EnvPreset returns the [[env]] table of an environment: where its tasks are,
// what its server is called, how long an episode is.
func EnvPreset(name string) ([]byte, error) {
	return readPreset("presets/env", "of an environment ", name)
}

// LoadPreset reads an embedded configuration with the environments in envs in
// place of its own, and then the overrides in sets.
func (s *Schema) LoadPreset(name string, envs, sets []string) (Config, error) {
	text, err := Preset(name)
	if err != nil {
		return Config{}, err
	}
	if len(envs) == 0 {
		return s.newLoader("preset "+name, written).read(text, sets)
	}
	if slices.Contains(whole, name) {
		return Config{}, fmt.Errorf("the preset %s has its own environment; presets for any environment: %s", name, strings.Join(AlgorithmPresetNames(), ", "))
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
	l.lines = nil // no one file has them
	l.cfg.Trainer.Experiment = strings.Replace(l.cfg.Trainer.Experiment, own, strings.Join(envs, "-"), 1)
	return l.finish(sets)
}
