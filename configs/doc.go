// Package configs defines the run configuration: its sections and keys, their
// defaults and allowed values, how TOML and --set overrides become a Config, and
// how a Config becomes TOML again.
//
// It does not implement the keys: cli and cli/run convert a Config to the
// options of other packages. It opens no files except its embedded presets.
//
// A Config is a plain value, which several goroutines may read. Clone copies it.
package configs
